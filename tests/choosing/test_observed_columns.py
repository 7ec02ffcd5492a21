"""Tests of the observed columns: each item is the value of its member."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.capacity_estimate import ServedWork
from lbdns.choosing.observed_pool import ObservedPool
from lbdns.choosing.reported_values import counted_cores, load_of
from lbdns.model.snapshot import Reading, Snapshot

NAMES = ("frodo", "gandalf", "bilbo")
metrics = st.fixed_dictionaries(
    {},
    optional={
        "cpu_count": st.sampled_from([1.0, 4.0]),
        "cpu_idle": st.floats(0, 100),
        "busy_workers": st.floats(0, 50),
        "run_queue": st.floats(0, 9),
        "requests_per_s": st.floats(0, 500),
        "requests_total": st.floats(0, 1e4),
        "httpd_cpu_seconds": st.floats(0, 100),
    },
)
rounds = st.lists(st.dictionaries(st.sampled_from(NAMES), st.none() | metrics), max_size=8)


def require_values_of_members(pool: ObservedPool) -> None:
    columns, members = pool.columns, pool.members
    readings = [member.reading for member in members]
    assert columns.readings == readings
    assert columns.received == [reading.received if reading else -math.inf for reading in readings]
    assert columns.scores == [reading.score if reading else 0 for reading in readings]
    assert columns.intervals == [member.interval for member in members]
    assert columns.overdue_at == [member.overdue_at for member in members]
    assert columns.metrics == [member.metrics for member in members]
    assert columns.loads == [load_of(member.metrics) for member in members]
    averages = zip(columns.loads, columns.cores, columns.requests_per_s, columns.in_progress, strict=True)
    assert list(averages) == [member.averages() for member in members]
    assert columns.work == ServedWork.of([member.request_cost for member in members])
    assert pool.cores == counted_cores([member.metrics.get("cpu_count") for member in members])
    assert pool.available_shares() == [
        member.available_share(cores) for member, cores in zip(members, pool.cores, strict=True)
    ]


@given(rounds)
def test_every_column_has_the_values_of_the_members(told: list[dict[str, dict[str, float] | None]]) -> None:
    pool, readings = ObservedPool(NAMES), dict[str, Reading]()
    for number, reports in enumerate(told):
        for name, values in reports.items():
            before = readings.get(name)
            kept = before.metrics if values is None and before else values or {}  # an alarm repeats the last metrics
            readings[name] = Reading(100.0 + number, 1.0, 50 if number % 3 else None, kept)
        pool.observe(Snapshot(number, dict(readings)))
        require_values_of_members(pool)
    successor = ObservedPool((*NAMES[1:], "samwise"))
    successor.take_over(pool, [1, 2, None])
    require_values_of_members(successor)
