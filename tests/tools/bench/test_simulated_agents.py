"""Checks simulated agents: their reports are valid and differ, they keep their rate, and they stop with the parent."""

from __future__ import annotations

import socket

import pytest

from lbdns_shared.keys import new_master_key
from lbdns_shared.metric_catalogue import STANDARD_METRICS
from lbdns_shared.report import Report, decode_body, open_envelope
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.bench.report_transports import ReportTarget
from lbdns_tools.bench.simulated_agents import (
    FIRST,
    LONGEST_DELAY,
    STEP,
    PreparedReports,
    SenderSchedule,
    SimulatedAgents,
    agent_name,
)
from tests.end_to_end.process import eventually

MASTER = new_master_key()


def report_in(datagram: bytes) -> Report:
    """Return the report in a datagram, after a check of its signature."""
    envelope = open_envelope(datagram)
    assert envelope.signed_by(MASTER.agent_key(envelope.host))
    return decode_body(envelope)


def test_prepared_reports_are_signed_and_differ() -> None:
    keys = [MASTER.agent_key(agent_name(number)) for number in range(3)]
    reports = PreparedReports(keys, 0.5)
    found = [report_in(reports.datagram(agent, seq, 1000.5 + seq)) for seq in (1, 2) for agent in (0, 2)]
    assert [(one.host, one.seq, one.time) for one in found] == [
        ("m0", FIRST + 1, 1001.5), ("m2", FIRST + 1, 1001.5), ("m0", FIRST + 2, 1002.5), ("m2", FIRST + 2, 1002.5),
    ]  # fmt: skip
    assert {one.interval for one in found} == {0.5}
    assert all(set(one.metrics) == set(STANDARD_METRICS) for one in found)
    assert found[0].metrics != found[2].metrics


def test_reports_are_spread_over_the_interval() -> None:
    schedule, sent, most = SenderSchedule(1000, 1.0), 0, 0
    for step in range(401):
        due = schedule.due(step * STEP, sent)
        sent, most = sent + due, max(most, due)
    assert sent == 2000
    assert most <= 6
    assert schedule.behind == pytest.approx(0.0, abs=1e-6)


def test_a_late_sender_sends_no_burst() -> None:
    schedule = SenderSchedule(1000, 1.0)
    assert schedule.due(2.0, 0) == 1000 * LONGEST_DELAY
    assert schedule.behind == pytest.approx(2.0 - STEP - 0.001)
    assert schedule.due(2.01, 50) == 10


@pytest.mark.parametrize(("agents", "interval"), [(1, 1.0), (1, 60.0), (3, 1.0)])
def test_a_few_agents_report_too(agents: int, interval: float) -> None:
    schedule, sent = SenderSchedule(agents, interval), 0
    for step in range(round(2 * interval / STEP) + 2):
        due = schedule.due(step * STEP, sent)
        sent += due
        assert due <= 1
    assert sent == 2 * agents
    assert schedule.behind == pytest.approx(0.0, abs=1e-6)


def test_the_processes_send_until_they_are_stopped() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(30)
        with SimulatedAgents(MASTER, 20, 0.5, ReportTarget((sock.getsockname()[1],))) as agents:
            hosts: set[str] = set()
            size = 0
            while len(hosts) < 20:
                datagram = sock.recv(2000)
                hosts.add(report_in(datagram).host)
                size += len(datagram)
            eventually(lambda: agents.bytes >= size, "the bytes are counted", 30)
            assert agents.cpu_seconds() > 0
            assert agents.stop() >= 20
            assert agents.behind >= 0
        assert hosts == {agent_name(number) for number in range(20)}


def test_a_sender_that_fails_is_an_error() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind(("127.0.0.1", 0))  # does not listen
        with SimulatedAgents(MASTER, 1, 1.0, ReportTarget((), sock.getsockname()[1])) as agents:

            def has_failed() -> bool:
                try:
                    _ = agents.sent
                except BenchmarkError:
                    return True
                return False

            eventually(has_failed, "the failure is noticed", 60)
