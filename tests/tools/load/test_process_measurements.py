"""How long a measurement lasted, and what processes' parts come to."""

from __future__ import annotations

import msgpack
import pytest

from lbdns_tools.load.generator_saturation import ProcessStrain
from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.load.process_measurements import ProcessMeasurement, combine, measured_seconds, read_measurement
from lbdns_tools.load.request_tally import RequestTally
from tests.tools.load.local_runs import run_of

URL = "http://127.0.0.1/"
CALM = ProcessStrain(0.5, (0.0, 0.0, 0.0, 0.0), {24: 1}, 0, 0)


def part(ok: int, in_window: int, last_ok: float, last_end: float | None = None) -> ProcessMeasurement:
    tally = RequestTally()
    for _ in range(ok):
        tally.add(0.0, 0.1, 0.0, 0.0, 10, "10.0.0.1")
    return ProcessMeasurement(tally, in_window, last_ok, last_ok if last_end is None else last_end, CALM)


@pytest.mark.parametrize(
    ("parts", "seconds"),
    [
        ([(100, 100, 9.9)], 10.0),
        ([(50, 50, 9.9), (50, 50, 9.8)], 10.0),
        ([(200, 100, 20.0)], 20.0),  # twice as many were asked for as could be answered in time
        ([(101, 100, 25.0)], 10.1),  # one that hung doesn't stretch the time
        ([(5, 4, 10.4)], 10.4),  # few: the time until the last response is nearer
        ([(0, 0, 0.0, 15.0)], 10.0),
    ],
)
def test_seconds_of_a_run_that_time_ends(parts: list[tuple[int, int, float]], seconds: float) -> None:
    run = run_of(OpenLoop((20.0,), 10.0), URL)
    measured = [part(*each) for each in parts]
    assert measured_seconds(run, measured, sum(each.tally.ok for each in measured)) == pytest.approx(seconds)


def test_seconds_without_the_warm_up() -> None:
    run = run_of(ClosedLoop(5, seconds=10.0), URL, warm_up_s=4.0)
    assert measured_seconds(run, [part(60, 60, 10.1)], 60) == pytest.approx(6.0)


def test_seconds_of_a_run_that_requests_end() -> None:
    run = run_of(ClosedLoop(5, requests=60), URL)
    assert measured_seconds(run, [part(60, 0, 3.0), part(50, 0, 2.0)], 110) == 3.0
    run = run_of(ClosedLoop(5, seconds=10.0, requests=60), URL)
    assert measured_seconds(run, [part(60, 60, 3.0)], 60) == 3.0


def test_seconds_of_a_run_that_was_stopped() -> None:
    run = run_of(ClosedLoop(5, seconds=10.0), URL)
    assert measured_seconds(run, [part(60, 60, 2.5)], 60, stopped_at=3.0) == pytest.approx(3.0)


def test_together_over_a_pipe() -> None:
    run = run_of(ClosedLoop(5, seconds=10.0), URL)
    parts = [
        read_measurement(msgpack.unpackb(msgpack.packb(each.state()), strict_map_key=False))
        for each in (part(60, 60, 9.0), part(40, 40, 9.5))
    ]
    result = combine(run, parts)
    assert (result.tally.ok, result.seconds) == (100, 10.0)
    assert result.tally.servers == {"10.0.0.1": [100, 100]}
    assert [process.requests for process in result.processes] == [60, 40]
    assert result.saturation == "2 requests found no free descriptor: raise the limit (ulimit -n)"
    assert not result.interrupted


def test_what_is_no_measurement() -> None:
    with pytest.raises(ValueError, match="not a valid measurement"):
        read_measurement({"tally": RequestTally().state()})
