"""Tests of the native observations of a member: they are exactly those of Python."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.choosing.observed_columns import MemberObservations
from lbdns.choosing.observed_pool import NATIVE, ObservedMember, ObservedPool
from lbdns.model.snapshot import Reading, Snapshot
from tests.needs import needs

pytestmark = needs(native=True)

NAMES = ("frodo", "gandalf", "bilbo")
#: Values that agents report, and some that none should
values = st.floats(0, 1e4) | st.sampled_from([0.0, 1.0, -1.0, 1e16, float("inf"), float("nan")])
metrics = st.fixed_dictionaries(
    {},
    optional={
        "cpu_count": st.sampled_from([1.0, 0.5, 4.0, 0.0, 1e7]),
        "cpu_idle": st.floats(0, 100),
        "cpu_steal": st.floats(0, 110),
        "busy_workers": st.floats(0, 200),
        "listen_queue": st.floats(0, 200),
        "run_queue": st.floats(0, 9),
        "requests_per_s": values,
        "requests_total": st.floats(0, 1e6) | st.integers(0, 1000).map(float),
        "httpd_cpu_seconds": st.floats(0, 100),
        "load_1m": values,
    },
)
#: Seconds since the last report, the declared interval, and the metrics (None: those of the last report)
reports = st.tuples(
    st.sampled_from([0.0, 0.2, 1.0, 1.1, 5.0, 70.0]), st.sampled_from([0.5, 1.0, 10.0]), metrics | st.none()
)


def native_members(size: int) -> list[MemberObservations]:
    return ObservedPool([f"m{n}" for n in range(size)], native=True).members


def seen(member: MemberObservations) -> list[Any]:
    cost = member.request_cost
    return [
        member.reading, dict(member.metrics), member.interval, member.overdue_at, member.averages(),
        [member.available_share(cores) for cores in (0.5, 1.0, 7.0)],
        [member.other_tasks(cores) for cores in (0.5, 1.0, 7.0)],
        [member.standstill(cores) for cores in (0.5, 1.0, 7.0)], cost.served(), cost.recent_requests,
        cost.squared_spread(), cost.has_changed(0.25), cost.has_changed(1e-6),
    ]  # fmt: skip


@given(st.lists(reports, max_size=12), st.booleans())
@example(
    [(1.0, 1.0, {"requests_total": 1000.0 * n, "httpd_cpu_seconds": 2.5 * n, "cpu_count": 4.0, "cpu_idle": 30.0,
                 "busy_workers": 3.0 + n, "listen_queue": 1.0, "requests_per_s": 1000.0}) for n in range(6)],
    True,
)  # fmt: skip
@example(
    [(1.0, 1.0, {"httpd_cpu_seconds": 0.2 * n, "cpu_count": 2.0, "cpu_idle": 1.0, "busy_workers": 3.0 + n,
                 "run_queue": 22.0 + n, "cpu_steal": 80.0}) for n in range(6)],
    False,
)  # fmt: skip
def test_the_observations_are_the_same(told: list[tuple[float, float, dict[str, float] | None]], forgets: bool) -> None:
    (native,), python = native_members(1), ObservedMember()
    now, before = 1000.0, dict[str, float]()
    for seconds, interval, reported in told:
        now += seconds
        before = before if reported is None else reported
        reading = Reading(now, interval, 50, before)
        native.observe(reading)
        python.observe(reading)
        assert seen(native) == seen(python)
    if forgets:
        native.request_cost.forget()
        python.request_cost.forget()
        assert seen(native) == seen(python)


def test_the_extension_observes_the_members() -> None:
    assert NATIVE
    assert not any(isinstance(member, ObservedMember) for member in native_members(2))


def test_metrics_need_not_be_a_dict() -> None:
    (native,), python = native_members(1), ObservedMember()
    for member in (native, python):
        member.observe(Reading(1.0, 1.0, 50, MappingProxyType({"busy_workers": 2.0, "run_queue": -1.0})))
        member.observe(Reading(2.0, 1.0, 50, MappingProxyType({"run_queue": 1.0})))
    assert seen(native) == seen(python)
    assert native.averages()[0] == 2.0, "the busy workers of the last report still count"


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), metrics), max_size=8))
def test_pools_estimate_the_same(told: list[dict[str, dict[str, float]]]) -> None:
    pools = [ObservedPool(NAMES, native=native) for native in (False, True)]
    readings = dict[str, Reading]()
    for number, reported in enumerate(told):
        readings |= {name: Reading(100.0 + number, 1.0, 50, found) for name, found in reported.items()}
        for pool in pools:
            pool.observe(Snapshot(number, dict(readings)))
        one, other = [
            (pool.cores, pool.interval, pool.measured, pool.available_shares(), pool.other_tasks(), pool.standstills())
            for pool in pools
        ]
        assert one == other
        assert pools[0].observed_capacities() == pools[1].observed_capacities()
