"""No member can harm its pool with false reports: neither the other members' capacities nor their shares."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

from tests.choosing.lying_member import (
    END,
    HONEST_AGAIN,
    SETTLED,
    UNTIL,
    FalseReports,
    Lie,
    LyingMember,
    Metrics,
    honest,
    honest_pool,
    idle_pool,
    run_pool,
)


def changed(**changes: float) -> Lie:
    return lambda metrics, second: ({**metrics, **changes}, 1.0)


def requests_rise(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return {**metrics, "requests_total": metrics["requests_total"] + 1e9 * (second + 1)}, 1.0


def cpu_time_rises(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return {**metrics, "httpd_cpu_seconds": metrics["httpd_cpu_seconds"] + 1e6 * (second + 1)}, 1.0


def idle_while_requests_rise(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return {**requests_rise(metrics, second)[0], **changed(busy_workers=0.0, cpu_idle=100.0)({}, second)[0]}, 1.0


LIES: Final[dict[str, Lie]] = {
    "requests rise by 1e9 a report": requests_rise,
    "the counter of requests jumps by 1e12": lambda metrics, _: (
        {**metrics, "requests_total": metrics["requests_total"] + 1e12},
        1.0,
    ),
    "CPU time rises by 1e6 s a report": cpu_time_rises,
    "idle, and requests rise": idle_while_requests_rise,
    "a load of 1e15": changed(busy_workers=1e15, run_queue=1e15),
    "1e15 requests/s": changed(requests_per_s=1e15),
    "an interval of a day": lambda metrics, _: (metrics, 86_400.0),
    "half the CPU time": LyingMember([FalseReports(cpu=0.5)]),
    "twice the CPU time": LyingMember([FalseReports(cpu=2.0)]),
    "slow, then fast": LyingMember([FalseReports(requests=0.1), FalseReports(requests=10.0, busy_workers=0.0)]),
}


def harm(members: int, load: float, lie: Lie, cores: tuple[float | None, ...] = (None,)) -> tuple[float, float, float]:
    """Return the relative change of another member's capacity, the liar's gain, and its gain or loss 30 s later.

    The gain is relative to an idle member that reports the same cores; what remains, to an honest member.
    """
    true, false, idle = honest_pool(members, load), run_pool(members, load, lie), idle_pool(members, load, cores)
    liar = members - 1
    capacity = max(
        abs(false.capacity(other, SETTLED, UNTIL) / true.capacity(other, SETTLED, UNTIL) - 1) for other in range(liar)
    )
    gain = false.share(liar, SETTLED, UNTIL) / idle.share(liar, SETTLED, UNTIL)
    remains = false.share(liar, HONEST_AGAIN, END) / true.share(liar, HONEST_AGAIN, END) - 1
    return capacity, gain, abs(remains)


@pytest.mark.parametrize("load", [0.3, 0.9])
@pytest.mark.parametrize("members", [3, 5])
@pytest.mark.parametrize("name", LIES)
def test_no_false_report_harms_the_pool(members: int, load: float, name: str) -> None:
    capacity, gain, remains = harm(members, load, LIES[name])
    assert capacity <= 0.1
    assert gain <= 1.5
    assert remains <= 0.1


METRICS: Final = ("requests_total", "httpd_cpu_seconds", "busy_workers", "cpu_idle", "run_queue", "cpu_count")
WITHOUT_AGENT: Final = ("requests_per_s", *METRICS)
LIES_THAT_GAIN: Final[dict[str, Lie]] = {
    "negative requests/s": changed(requests_per_s=-300.0, busy_workers=0.0, cpu_idle=100.0),
    "requests rise": LyingMember([FalseReports(requests=1000.0, busy_workers=0.0, cpu_idle=100.0)]),
    "a load of 1e5": changed(busy_workers=1e5),
    "a thousandth of a core": changed(cpu_count=1e-3, busy_workers=0.0, cpu_idle=100.0),
}


@pytest.mark.parametrize("without", [(), ("busy_workers", "run_queue"), WITHOUT_AGENT])
@pytest.mark.parametrize("name", LIES_THAT_GAIN)
def test_beside_a_member_that_reports_less_no_false_report_gains_more(name: str, without: tuple[str, ...]) -> None:
    lie = LIES_THAT_GAIN[name]
    found, true = run_pool(3, 0.3, lie, without=without), run_pool(3, 0.3, honest, without=without)
    assert found.share(2, SETTLED, UNTIL) <= 1.5 / 3
    assert found.share(1, SETTLED, UNTIL) >= 0.7 / 3
    assert found.capacity(1, SETTLED, UNTIL) == pytest.approx(true.capacity(1, SETTLED, UNTIL), rel=0.1)
    if "cpu_count" not in without:
        assert found.share(0, SETTLED, UNTIL) >= 0.7 / 3


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_a_false_load_leaves_the_others_equal_shares(load: float) -> None:
    shares = run_pool(3, load, LIES_THAT_GAIN["a load of 1e5"]).shares[SETTLED:UNTIL]
    assert all(second[:2] == pytest.approx((0.5, 0.5), abs=0.1) for second in shares)


@pytest.mark.parametrize("name", ["requests rise", "negative requests/s"])
def test_a_member_that_never_reports_confirms_nothing(name: str) -> None:
    found = run_pool(3, 0.3, LIES_THAT_GAIN[name], silent=True)
    assert found.share(1, SETTLED, UNTIL) >= 0.25
    assert found.capacity(1, SETTLED, UNTIL) == pytest.approx(200, rel=0.1)


FACTORS: Final = st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.5, 0.8, 1.0, 1.2, 2.0, 5.0, 100.0, 1e6])
FALSE_REPORTS: Final = st.builds(
    FalseReports,
    requests=FACTORS,
    cpu=FACTORS,
    busy_workers=st.sampled_from([None, 0.0, 1.0, 50.0]),
    cpu_idle=st.sampled_from([None, 0.0, 100.0]),
    cores=st.sampled_from([None, 2.0, 8.0]),
    requests_per_s=FACTORS,
    interval=st.sampled_from([1.0, 0.1, 5.0, 60.0]),
    missing=st.sets(st.sampled_from(METRICS), max_size=2).map(lambda names: tuple(sorted(names))),
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([3, 5]), st.sampled_from([0.3, 0.6, 0.9]), st.lists(FALSE_REPORTS, min_size=1, max_size=3))
def test_no_stream_of_reports_harms_the_pool(members: int, load: float, phases: list[FalseReports]) -> None:
    """Look for the reports that gain most, in pools of three or more that can carry their load."""
    cores = tuple(phase.cores for phase in phases)
    capacity, gain, remains = harm(members, load, LyingMember(phases), cores)
    target(gain)
    assert capacity <= 0.1
    assert gain <= 1.5
    assert remains <= 0.1


@pytest.mark.parametrize("members", [3, 5])
@pytest.mark.parametrize("lie", [requests_rise, idle_while_requests_rise, LyingMember([FalseReports(cpu=0.1)])])
def test_policy_weighted_is_limited_too(members: int, lie: Lie) -> None:
    share = run_pool(members, 0.3, lie, "weighted").share(members - 1, SETTLED, UNTIL)
    assert share <= 1.5 / members


@pytest.mark.parametrize("lie", [requests_rise, idle_while_requests_rise, LyingMember([FalseReports(cpu=0.1)])])
def test_of_two_members_the_honest_one_keeps_a_quarter_of_its_share(lie: Lie) -> None:
    true, false = honest_pool(2, 0.3), run_pool(2, 0.3, lie)
    assert false.share(0, SETTLED, UNTIL) >= true.share(0, SETTLED, UNTIL) / 4


@pytest.mark.parametrize(("load", "most"), [(0.3, 0.8), (0.6, 0.55), (0.9, 0.45)])
def test_a_member_gains_little_by_claiming_cores_that_it_does_not_use(load: float, most: float) -> None:
    assert run_pool(3, load, changed(cpu_count=1e6)).share(2, SETTLED, UNTIL) <= most


@pytest.mark.parametrize("members", [3, 5])
def test_a_million_cores_count_as_four_times_the_usual_number(members: int) -> None:
    observed = run_pool(members, 0.6, changed(cpu_count=1e6))
    capacity = observed.capacity(members - 1, SETTLED, UNTIL)
    assert capacity == pytest.approx(4 * observed.capacity(0, SETTLED, UNTIL), rel=0.1)
    assert observed.share(members - 1, HONEST_AGAIN, END) == pytest.approx(1 / members, rel=0.1)
