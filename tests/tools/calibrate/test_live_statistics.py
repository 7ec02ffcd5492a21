"""Tests of how the results of a live trial are computed from the members' reports."""

from __future__ import annotations

from typing import Any

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.calibrate.live_farm import ReportWatch, requests_between


def member(interval: float = 1.0, **metrics: float) -> dict[str, Any]:
    return {"interval_s": interval, "metrics": metrics}


def test_requests_are_those_of_clients() -> None:
    before = {"a": member(requests_total=100.0), "b": member(0.5, requests_total=7.0)}
    after = {"a": member(requests_total=150.0), "b": member(0.5, requests_total=27.0)}
    # In ten seconds the agents asked 10 and 20 times themselves
    assert requests_between(before, after, 10.0) == 40.0


def test_a_web_server_that_was_restarted_can_not_be_measured() -> None:
    with pytest.raises(LbdnsError, match="a: the web server restarted"):
        requests_between({"a": member(requests_total=100.0)}, {"a": member(requests_total=3.0)}, 1.0)


@pytest.mark.parametrize(("before", "after"), [("ab", "a"), ("a", "ab")])
def test_members_that_come_or_go_can_not_be_measured(before: str, after: str) -> None:
    def members(names: str) -> dict[str, dict[str, Any]]:
        return {name: member(requests_total=1.0) for name in names}

    with pytest.raises(LbdnsError, match="b: became usable or unusable"):
        requests_between(members(before), members(after), 1.0)


def test_response_time_by_littles_law_each_report_once() -> None:
    watch = ReportWatch()
    report = {"a": member(busy_workers=5.0, requests_per_s=21.0, run_queue=4.0, cpu_count=2.0)}
    watch.see(report)
    watch.see(report)
    watch.see({"a": member(busy_workers=9.0, requests_per_s=41.0, run_queue=8.0, cpu_count=2.0)})
    outcome = watch.outcome(requests=120.0, seconds=2.0)
    assert outcome.throughput_per_s == 60.0
    # Without the agent's own: 4 and 8 busy over 20 and 40 a second
    assert outcome.mean_ms == pytest.approx(200.0)
    assert outcome.ranges == {"run_queue": 8.0, "requests_per_s": 41.0, "busy_workers": 9.0}


def test_missing_metrics_are_not_an_error() -> None:
    watch = ReportWatch()
    watch.see({"a": member()})
    assert watch.outcome(0.0, 1.0).mean_ms == 0.0
