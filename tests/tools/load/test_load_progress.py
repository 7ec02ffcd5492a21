"""How much of a run is done."""

from __future__ import annotations

from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.load.load_progress import LoadProgress, done
from tests.tools.load.local_runs import run_of

URL = "http://127.0.0.1/"


def test_share_by_time_or_by_requests() -> None:
    assert done(run_of(OpenLoop((5.0,), 10.0), URL), 4.0, 1000) == 0.4
    assert done(run_of(ClosedLoop(5, requests=100), URL), 4.0, 30) == 0.3
    assert done(run_of(ClosedLoop(5, seconds=10.0, requests=100), URL), 4.0, 80) == 0.8
    assert done(run_of(ClosedLoop(5, seconds=10.0), URL), 14.0, 80) == 1.0


def test_words() -> None:
    assert str(LoadProgress("x", 0.5, 2.0, 100, 3, 7)) == "100 requests, 50/s, 7 under way, 3 failed"
    assert str(LoadProgress("x", 0.0, 0.0, 0, 0, 0)) == "0 requests, 0/s, 0 under way"
