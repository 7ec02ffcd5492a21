"""Checks what the benchmarks read from /metrics: counts of reports, and whether all members have reported."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lbdns.client.http_client import HttpLocation
from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench import collector_counts
from lbdns_tools.bench.collector_counts import (
    ReportCounts,
    await_all,
    await_steady,
    cost_figures,
    is_steady,
    metrics_text,
    report_counts,
    samples,
)
from lbdns_tools.bench.measured_processes import BenchmarkError


def test_samples() -> None:
    text = '# HELP x_total y\nx_total{a="1",result="ok"} 3.0\nx_total{result="bad"} 4\nxx_total 5\nz_total 1e+06\n'
    assert list(samples(text, "x_total")) == [("ok", 3.0), ("bad", 4.0)]
    assert list(samples(text, "z_total")) == [("", 1e6)]


def test_counts_of_reports() -> None:
    text = (
        'lbdns_reports_total{result="accepted"} 90.0\nlbdns_reports_total{result="rate"} 3.0\n'
        'lbdns_reports_total{result="clock"} 0.0\nlbdns_report_overflows_total 4.0\n'
    )
    assert report_counts(text) == ReportCounts(90, {"rate": 3}, 4)
    assert report_counts(text).known_lost == 7


def metrics(unknown: int, usable: int, silent: int, info: int, warning: int) -> str:
    return (
        f'lbdns_pool_members{{pool="p0",state="unknown"}} {unknown}.0\n'
        f'lbdns_pool_members{{pool="p0",state="usable"}} {usable}.0\n'
        f'lbdns_pool_members{{pool="p1",state="silent"}} {silent}.0\n'
        f'lbdns_events_total{{kind="state",level="info"}} {info}.0\n'
        f'lbdns_events_total{{kind="state",level="warning"}} {warning}.0\n'
        'lbdns_events_total{kind="reload",level="info"} 500.0\n'
    )


@pytest.mark.parametrize(
    ("text", "steady"),
    [
        (metrics(0, 9, 1, 9, 1), True),
        (metrics(5, 10, 0, 10, 0), True),  # other members never report
        (metrics(1, 9, 0, 9, 5), False),  # a member has not reported yet
        (metrics(0, 10, 0, 9, 0), False),  # announcements wait
        ("", False),
    ],
)
def test_members_are_steady_once_all_are_announced(text: str, steady: bool) -> None:
    assert is_steady(text, 10) == steady


def test_members_that_do_not_report_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_counts, "fetch", lambda *_: b"")
    with pytest.raises(BenchmarkError, match="not all of 3 members have reported"):
        await_steady(HttpLocation("http://127.0.0.1:1"), 3, 0.0)


def test_a_busy_program_may_respond_late(monkeypatch: pytest.MonkeyPatch) -> None:
    replies: list[bytes | None] = [None, b"x 1\n", None]

    def fetch(*_: object) -> bytes:
        if (reply := replies.pop(0)) is None:
            raise LbdnsError("no response")
        return reply

    monkeypatch.setattr(collector_counts, "fetch", fetch)
    monkeypatch.setattr(collector_counts, "POLL", 0.0)
    web = HttpLocation("http://127.0.0.1:1")
    assert metrics_text(web) == "x 1\n"
    monkeypatch.setattr(collector_counts, "PATIENCE", 0.0)
    with pytest.raises(LbdnsError, match="no response"):
        metrics_text(web)


@pytest.mark.parametrize(
    ("looks", "accepted"),
    [
        ([(5, 0), (8, 0), (10, 0)], 10),  # all have arrived
        ([(5, 0), (7, 3)], 7),  # the buffer was full
        ([(5, 0), (9, 0), (9, 0), (9, 0)], 9),  # one is missing without a trace
    ],
)
def test_the_last_reports_are_awaited(
    monkeypatch: pytest.MonkeyPatch, looks: Iterable[tuple[int, int]], accepted: int
) -> None:
    monkeypatch.setattr(collector_counts, "POLL", 0.0)
    monkeypatch.setattr(collector_counts, "QUIET", 0.1)
    answers = [ReportCounts(count, {}, overflows) for count, overflows in looks]

    def read() -> ReportCounts:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    assert await_all(read, 10).accepted == accepted


@pytest.mark.parametrize(
    ("accepted", "sent", "lost", "figures"),
    [
        (1000, 1000, 0, {"lost_percent": 0.0, "cpu_us_per_report": 50.0}),
        (500, 505, 5, {"lost_percent": 0.99, "cpu_us_per_report": 100.0}),  # by accepted reports, not by sent ones
        (0, 0, 0, {"lost_percent": 100.0}),
        (980, 1000, 20, {"lost_percent": 2.0}),
    ],
)
def test_the_cost_is_that_of_accepted_reports(accepted: int, sent: int, lost: int, figures: dict[str, float]) -> None:
    found = cost_figures(0.05, accepted, sent, lost)
    note = found.pop("note", "")
    assert found == figures
    assert ("cpu_us_per_report" in found) != ("no CPU time per report" in str(note))
