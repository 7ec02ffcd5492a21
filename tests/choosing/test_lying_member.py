"""No member can spoil its pool with absurd reports: neither the other members' capacities nor their shares."""

from __future__ import annotations

from typing import Final

import pytest

from tests.choosing.lying_member import END, FROM, UNTIL, Lie, run_pool

Metrics = dict[str, float]
SETTLED: Final = FROM + 40


def honest(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return metrics, 1.0


def idle(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return {**metrics, "busy_workers": 0.0, "cpu_idle": 100.0, "requests_per_s": 0.0}, 1.0


def changed(**changes: float) -> Lie:
    return lambda metrics, second: ({**metrics, **changes}, 1.0)


def requests_rise(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return {**metrics, "requests_total": metrics["requests_total"] + 1e9 * (second + 1)}, 1.0


def cpu_time_rises(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return {**metrics, "httpd_cpu_seconds": metrics["httpd_cpu_seconds"] + 1e6 * (second + 1)}, 1.0


def idle_while_requests_rise(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return {**requests_rise(metrics, second)[0], **changed(busy_workers=0.0, cpu_idle=100.0)({}, second)[0]}, 1.0


def silent_for_a_day(metrics: Metrics, second: int) -> tuple[Metrics, float]:
    return metrics, 86_400.0


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
    "an interval of a day": silent_for_a_day,
}


@pytest.mark.parametrize("members", [3, 5])
@pytest.mark.parametrize("name", LIES)
def test_absurd_reports_move_nothing(members: int, name: str) -> None:
    true, false = (run_pool(members, 0.6, lie) for lie in (honest, LIES[name]))
    liar = members - 1
    for other in range(liar):
        was = true.capacity(other, SETTLED, UNTIL)
        assert false.capacity(other, SETTLED, UNTIL) == pytest.approx(was, rel=0.1)
    most = 1.5 * run_pool(members, 0.6, idle).share(liar, SETTLED, UNTIL)
    assert false.share(liar, SETTLED, UNTIL) <= most
    after = true.share(liar, UNTIL + 30, END)
    assert false.share(liar, UNTIL + 30, END) == pytest.approx(after, rel=0.1)


@pytest.mark.parametrize("members", [3, 5])
def test_a_million_cores_count_as_four_times_the_usual_number(members: int) -> None:
    observed = run_pool(members, 0.6, changed(cpu_count=1e6))
    capacity = observed.capacity(members - 1, SETTLED, UNTIL)
    assert capacity == pytest.approx(4 * observed.capacity(0, SETTLED, UNTIL), rel=0.1)
    assert observed.share(members - 1, UNTIL + 30, END) == pytest.approx(1 / members, rel=0.1)
