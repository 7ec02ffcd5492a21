"""The metrics that follow from two readings of a web server's status."""

from __future__ import annotations

import pytest

from lbdns_agent.webserver.worker_status import NO_LIMIT, WorkerStatus, worker_metrics

WHY = "the status page has no 'Total Accesses'; set 'ExtendedStatus On'"


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, WorkerStatus(100, 2, 3), {"requests_total": 100}),
        (WorkerStatus(100, 2, 3), WorkerStatus(150, 2, 3), {"requests_total": 150, "requests_per_s": 25.0}),
        (WorkerStatus(100, 2, 3), WorkerStatus(100, 2, 3), {"requests_total": 100, "requests_per_s": 0.0}),
        (WorkerStatus(100, 2, 3), WorkerStatus(4, 2, 3), {"requests_total": 4}),  # Apache was restarted
        (WorkerStatus(None, 2, 3), WorkerStatus(4, 2, 3), {"requests_total": 4}),
        (WorkerStatus(100, 2, 3), WorkerStatus(None, 2, 3), {"requests_total": WHY, "requests_per_s": WHY}),
    ],
)
def test_values(before: WorkerStatus | None, now: WorkerStatus, expected: dict[str, float]) -> None:
    assert worker_metrics(before, now, 2.0) == {"busy_workers": 2, "idle_workers": 3, **expected}


def test_a_server_without_a_limit_and_with_a_metric_of_its_own() -> None:
    now = WorkerStatus(7.0, 2.0, None, {"nginx_waiting": 4.0})
    assert worker_metrics(None, now, 0.0) == {
        "busy_workers": 2.0, "nginx_waiting": 4.0, "idle_workers": NO_LIMIT, "requests_total": 7.0,
    }  # fmt: skip


def test_two_readings_at_the_same_time_have_no_rate() -> None:
    assert "requests_per_s" not in worker_metrics(WorkerStatus(1, 2, 3), WorkerStatus(4, 2, 3), 0.0)
