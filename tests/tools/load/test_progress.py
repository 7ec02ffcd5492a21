"""How much of a run is done."""

from __future__ import annotations

from lbdns_tools.load.plan import Closed, Open
from lbdns_tools.load.progress import Progress, done, shown
from tests.tools.load.crowds import run_of

URL = "http://127.0.0.1/"


def test_share_by_time_or_by_requests() -> None:
    assert done(run_of(Open((5.0,), 10.0), URL), 4.0, 1000) == 0.4
    assert done(run_of(Closed(5, requests=100), URL), 4.0, 30) == 0.3
    assert done(run_of(Closed(5, seconds=10.0, requests=100), URL), 4.0, 80) == 0.8
    assert done(run_of(Closed(5, seconds=10.0), URL), 14.0, 80) == 1.0


def test_words() -> None:
    assert str(Progress("x", 0.5, 2.0, 100, 3, 7)) == "100 requests, 50/s, 7 under way, 3 failed"
    assert str(Progress("x", 0.0, 0.0, 0, 0, 0)) == "0 requests, 0/s, 0 under way"


def test_bar_is_shown_and_not_shown() -> None:
    for visible in (False, True):
        with shown(visible) as show:
            show(Progress("a", 0.5, 1.0, 10, 0, 1))
            show(Progress("b", 0.1, 1.0, 10, 0, 1))
