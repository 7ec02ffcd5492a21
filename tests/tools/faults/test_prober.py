"""Tests of probes that are repeated during a fault."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from lbdns_tools.faults.prober import TIMELY_S, Prober, answers_over_tcp, judge
from lbdns_tools.faults.waiting import wait_for


def test_a_prober_counts_successes_and_failures() -> None:
    good = threading.Event()
    with Prober(good.is_set, 0.001) as prober:
        assert wait_for(lambda: prober.failures, 60)
        good.set()
        assert wait_for(lambda: prober.times, 60)
    assert prober.count == len(prober.times) + prober.failures


@pytest.mark.parametrize(
    ("times", "failures", "problems"),
    [
        ([0.1] * 10, 0, []),
        ([0.1] * 9, 1, []),
        ([*[0.1] * 9, TIMELY_S + 1], 0, []),
        ([*[0.1] * 8, TIMELY_S + 1], 1, ["TCP: 1 of 10 probes failed, 1 took longer than 3 s"]),
        ([0.1], 3, ["TCP: 3 of 4 probes failed, 0 took longer than 3 s"]),
        ([], 0, ["TCP: the prober made no attempts"]),
    ],
)
def test_a_tenth_of_the_probes_may_fail_or_be_late(times: list[float], failures: int, problems: list[str]) -> None:
    found: list[str] = []
    bed: Any = SimpleNamespace(expect=lambda holds, problem: None if holds else found.append(problem))
    prober = Prober(lambda: True)
    prober.times, prober.failures = times, failures
    judge(bed, prober, "TCP")
    assert found == problems


def test_a_server_that_sends_nothing_or_does_not_listen_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        assert not answers_over_tcp(port, 0.05)
    assert not answers_over_tcp(port, 0.05)
