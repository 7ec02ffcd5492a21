"""Tests of run durations, of summing results over processes, and of detecting a saturated load generator."""

from __future__ import annotations

import errno
import pickle
from typing import Any

import pytest

from lbdns_tools.load.load_plan import ClosedLoop, OpenLoop
from lbdns_tools.load.process_measurements import (
    ProcessMeasurement,
    StartLateness,
    combine,
    measured_seconds,
    saturation,
)
from lbdns_tools.load.request_tally import RequestTally
from tests.tools.load.local_runs import run_of

URL = "http://127.0.0.1/"
CALM: dict[str, Any] = {
    "tally": RequestTally(), "ok_in_window": 0, "last_ok": 0.0, "last_end": 0.0, "cpu_share": 0.3,
    "late_s": (0.0, 0.0, 0.0, 0.0), "local": {}, "held_back": 0, "max_connections": 0, "owners": {},
}  # fmt: skip


def measured(**changes: Any) -> ProcessMeasurement:
    return ProcessMeasurement(**{**CALM, **changes})


def part(ok: int, in_window: int, last_ok: float, last_end: float | None = None) -> ProcessMeasurement:
    tally = RequestTally()
    for _ in range(ok):
        tally.add(0.0, 0.1, 0.0, 0.0, 10, "10.0.0.1")
    end = last_ok if last_end is None else last_end
    return measured(tally=tally, ok_in_window=in_window, last_ok=last_ok, last_end=end, local={errno.EMFILE: 1})


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
    found = [part(*each) for each in parts]
    assert measured_seconds(run, found, sum(each.tally.ok for each in found)) == pytest.approx(seconds)


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
    parts = [pickle.loads(pickle.dumps(each)) for each in (part(60, 60, 9.0), part(40, 40, 9.5))]
    result = combine(run, parts, begun=1e9)
    assert (result.tally.ok, result.seconds) == (100, 10.0)
    assert result.tally.servers == {"10.0.0.1": [100, 100]}
    assert [process.tally.requests for process in result.processes] == [60, 40]
    assert result.saturation == "no file descriptor was free for 2 requests: raise the limit (ulimit -n)"
    assert not result.interrupted


def test_only_a_name_with_one_address_names_a_server() -> None:
    tally = RequestTally()
    owners = {
        "10.0.0.1": {"bilbo.hobbit"},
        "10.0.0.2": {"frodo.hobbit", "www.hobbit"},
        "10.0.0.3": {"direct.hobbit"},
        "10.0.0.4": {"direct.hobbit"},
        "fd00::1": {"gandalf.hobbit"},
        "fd00::1:53": {"sam.hobbit"},
    }
    for server in (*owners, "10.0.0.1:8080", "[fd00::1]:8080", "10.0.0.9"):
        tally.add(0.0, 0.1, 0.0, 0.0, 10, server)
    run = run_of(ClosedLoop(5, seconds=10.0), URL)
    halves = [
        {host: names for host, names in owners.items() if (host < "10.0.0.2") == first} for first in (True, False)
    ]
    parts = [measured(tally=tally, owners=halves[0]), measured(owners=halves[1])]
    assert combine(run, parts, begun=1e9).names == {
        "10.0.0.1": "bilbo.hobbit",
        "10.0.0.1:8080": "bilbo.hobbit:8080",
        "fd00::1": "gandalf.hobbit",
        "fd00::1:53": "sam.hobbit",
        "[fd00::1]:8080": "gandalf.hobbit:8080",
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpu_share": 0.97}, "process 2 of 2 used 97 % of a core"),
        ({"local": {errno.EADDRNOTAVAIL: 3}}, "no source port was free for 3 requests"),
        ({"local": {errno.EMFILE: 4}}, "no file descriptor was free for 4 requests"),
        ({"local": {errno.ENOBUFS: 5}}, "5 requests failed because the kernel ran out of memory"),
        ({"late_s": (0.001, 0.01, 0.05, 0.2)}, "requests started 200 ms late"),
        ({"held_back": 6, "max_connections": 10}, "6 requests waited because all 10 connections were in use"),
    ],
)
def test_each_limit_is_said(changes: dict[str, object], words: str) -> None:
    assert words in saturation([measured(), measured(**changes)])


def test_nothing_is_said_of_a_calm_one() -> None:
    assert saturation([measured(), measured(late_s=(0.02, 0.02, 0.02, 0.02))]) == ""
    assert saturation([measured(late_s=(0.0, 0.0, 0.0, 0.005))]) == ""
    assert saturation([]) == ""


def test_lateness_by_quarters() -> None:
    lateness = StartLateness(10.0, 14.0)
    for start in (10.0, 10.9, 11.5, 13.9, 20.0):
        lateness.add(start, start / 10)
    assert lateness.means() == pytest.approx([1.045, 1.15, 0.0, 1.695])
    forever = StartLateness(0.0, float("inf"))
    forever.add(5.0, 1.0)
    assert forever.means() == (1.0, 0.0, 0.0, 0.0)
