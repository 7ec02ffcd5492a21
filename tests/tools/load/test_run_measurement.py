"""One run measured: where its processes run, and when it began."""

from __future__ import annotations

import time

import pytest

from lbdns_tools.load.load_plan import ClosedLoop, LoadRun, ResolveRule
from lbdns_tools.load.load_process_pool import LoadPlace
from lbdns_tools.load.load_study import closed
from lbdns_tools.load.request_mix import one_url
from lbdns_tools.load.run_measurement import RunMeasurement
from tests.tools.load.loopback_servers import GOOD, answering, web


def test_every_place_has_a_process() -> None:
    """Whatever number of processors: a client host without a process would be missing in what was measured."""
    places = tuple(LoadPlace(sources=(f"127.0.0.{number}",)) for number in range(2, 7))
    with web(answering(GOOD)) as server:
        mix = one_url(f"http://127.0.0.1:{server.port}/")
        planned = closed(LoadRun(ResolveRule("once")), "html", mix, ClosedLoop(10, requests=50))
        row = RunMeasurement(places=places).measure(planned)
    assert row.figures.ok == 50
    assert server.peers == {place.sources[0] for place in places}


def test_a_row_knows_when_its_run_began() -> None:
    with web(answering(GOOD, pause_s=0.02)) as server:
        mix = one_url(f"http://127.0.0.1:{server.port}/")
        planned = closed(LoadRun(ResolveRule("once")), "html", mix, ClosedLoop(1, seconds=1.0))
        row = RunMeasurement(processes=1).measure(planned, repetition=2)
    assert row.repetition == 2
    assert row.begun is not None
    assert time.time() - row.begun == pytest.approx(1.0, abs=0.5)
