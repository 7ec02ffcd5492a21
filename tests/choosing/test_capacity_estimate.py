from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.choosing.capacity_estimate import MAX_SPEED, RequestCost, capacities, counted_cores, loads, plausible


def work(
    requests_per_cpu_second: float, seconds: int = 60, per_second: float = 10.0, metric: str = "httpd"
) -> RequestCost:
    """Return the request cost of a member that has served ``per_second`` requests/s for ``seconds``."""
    found = RequestCost()
    for second in range(seconds):
        total = second * per_second
        metrics = {"requests_total": total, "cpu_count": 1.0}
        if metric == "httpd":
            metrics["httpd_cpu_seconds"] = total / requests_per_cpu_second
        else:
            metrics["cpu_idle"] = 100 * (1 - per_second / requests_per_cpu_second)
        found.observe(metrics, 1.0)
    return found


def test_capacity_is_cores_times_requests_per_cpu_second() -> None:
    fast, slow = capacities([work(200), work(100)], [1.0, 4.0])
    assert fast == pytest.approx(200, rel=0.15)
    assert slow == pytest.approx(400, rel=0.15)


def test_without_cpu_seconds_utilisation_is_used() -> None:
    fast, slow = capacities([work(200, metric="idle"), work(100, metric="idle")], [1.0, 1.0])
    assert fast / slow == pytest.approx(2.0, rel=0.2)


def test_until_there_are_requests_cores_are_used() -> None:
    assert capacities([work(200, seconds=2, per_second=5), RequestCost()], counted_cores([2.0, None])) == (2.0, 2.0)


def test_a_member_without_request_counts_is_average_per_core() -> None:
    silent = RequestCost()
    silent.observe({"cpu_count": 2.0}, 1.0)
    known, unknown = capacities([work(100), silent], [1.0, 2.0])
    assert unknown == pytest.approx(2 * 100, rel=0.01)
    assert known == pytest.approx(100, rel=0.01)


def test_a_restart_of_the_web_server_adds_nothing() -> None:
    member = work(100)
    before = member.requests
    member.observe({"requests_total": 3.0, "httpd_cpu_seconds": 0.1}, 1.0)
    assert 0 < member.requests <= before
    member.observe({"requests_total": 13.0, "httpd_cpu_seconds": 0.2}, 1.0)
    assert member.requests > before * 0.9
    assert member.cpu_seconds > 0


def serve(member: RequestCost, total: dict[str, float], per_second: float, per_cpu_second: float, seconds: int) -> None:
    """Make a member serve ``per_second`` requests/s at ``per_cpu_second`` requests per CPU second."""
    for _ in range(seconds):
        total["requests_total"] += per_second
        total["httpd_cpu_seconds"] += per_second / per_cpu_second
        member.observe(dict(total), 1.0)


def test_a_new_kind_of_request_is_detected_within_seconds() -> None:
    """Requests that cost twenty times as much replace requests for static pages, but not yet on the slower member."""
    fast, slow = RequestCost(), RequestCost()
    fast_total, slow_total = ({"requests_total": 0.0, "httpd_cpu_seconds": 0.0} for _ in range(2))
    serve(fast, fast_total, 1000, 4000, 60)
    serve(slow, slow_total, 300, 2000, 60)
    before = capacities([fast, slow], [1.0, 1.0])
    assert before == pytest.approx((4000, 2000), rel=0.1)
    for _ in range(20):
        serve(fast, fast_total, 100, 200, 1)
        serve(slow, slow_total, 0, 100, 1)
    after = capacities([fast, slow], [1.0, 1.0])
    assert after[0] == pytest.approx(200, rel=0.3)
    assert after[1] < before[1] / 5, "a member that serves none of them follows"


def test_few_requests_of_a_new_kind_are_ignored() -> None:
    member = work(1000, seconds=120, per_second=10)
    total = {"requests_total": 1190.0, "httpd_cpu_seconds": 1.19}  # its last report
    before = capacities([member], [1.0])[0]
    serve(member, total, 4, 300, 1)
    assert capacities([member], [1.0])[0] == pytest.approx(before, rel=0.1)


@pytest.mark.parametrize("cores", [0.07, 64.0])
@pytest.mark.parametrize("seconds", [60, 4000])
def test_a_constant_cpu_counter_gives_a_finite_capacity(cores: float, seconds: int) -> None:
    member, total = RequestCost(), {"requests_total": 0.0, "httpd_cpu_seconds": 0.0}
    serve(member, total, 100, 500, 60)
    serve(member, total, 100, math.inf, seconds)
    alone = RequestCost()
    found = capacities([member, alone], [cores, cores])
    common = member.requests / member.cpu_seconds
    assert all(0 < capacity < 1000 * cores * common for capacity in found)


@pytest.mark.parametrize("cpu", [5e-324, 1e-300, 1e-9])
def test_next_to_no_cpu_time_gives_a_finite_capacity(cpu: float) -> None:
    member = RequestCost()
    member.observe({"requests_total": 0.0, "httpd_cpu_seconds": 0.0}, 1.0)
    member.observe({"requests_total": 45.0, "httpd_cpu_seconds": cpu}, 1.0)
    assert capacities([member], [4.0])[0] == pytest.approx(4.0 * MAX_SPEED, rel=0.01)


def test_cpu_time_without_requests_does_not_change_their_cost() -> None:
    """A server continues to use CPU time for an hour after its last requests, which were very expensive."""
    member, total = RequestCost(), {"requests_total": 0.0, "httpd_cpu_seconds": 0.0}
    serve(member, total, 10, 0.25, 60)
    for _ in range(3600):
        total["httpd_cpu_seconds"] += 4
        member.observe(dict(total), 1.0)
        assert capacities([member], [4.0])[0] > 0


def test_old_observations_fade() -> None:
    member = work(100)
    before = member.requests
    member.observe({"requests_total": 10_000.0, "httpd_cpu_seconds": 100.0}, 600.0)
    member.observe({"requests_total": 10_000.0, "httpd_cpu_seconds": 100.0}, 600.0)
    assert member.requests < before / 100


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([{"busy_workers": 3.0, "run_queue": 1.0}, {"run_queue": 7.0}], (3.0, 7.0)),
        ([{"busy_workers": 1.0, "run_queue": 9.0}, {"busy_workers": 2.0}], (9.0, 2.0)),
        ([{"busy_workers": 6.0}, {}], (6.0, 12.0)),  # as full for its capacity as the others
        # Who waits to be accepted is at work as well
        ([{"busy_workers": 8.0, "listen_queue": 30.0, "run_queue": 9.0}, {"run_queue": 2.0}], (38.0, 2.0)),
        ([{"busy_workers": 8.0, "listen_queue": 1.0, "run_queue": 12.0}, {"run_queue": 2.0}], (12.0, 2.0)),
        ([{"run_queue": 4.0, "listen_queue": 30.0}, {"run_queue": 4.0, "listen_queue": 1.0}], (30.0, 4.0)),
        (
            [{"busy_workers": 3.0, "listen_queue": 0.0}, {"listen_queue": 0.0}],
            (3.0, 6.0),
        ),  # an empty queue tells little
        ([{}, {}], (0.0, 0.0)),
    ],
)
def test_loads(metrics: list[dict[str, float]], expected: tuple[float, ...]) -> None:
    assert loads(metrics, [1.0, 2.0]) == pytest.approx(expected)


def test_the_agents_own_requests_do_not_change_the_speed() -> None:
    """The agent sends one 1-ms request per second; later, a crowd of clients sends requests that take 100 ms each."""
    members = [RequestCost() for _ in range(3)]
    total = cpu = 0.0
    for _ in range(600):
        total, cpu = total + 1, cpu + 0.001
        for member in members:
            member.observe({"requests_total": total, "httpd_cpu_seconds": cpu}, 1.0, status_requests=1)
    assert capacities(members, [0.11, 0.07, 0.4]) == (0.11, 0.07, 0.4)
    for _ in range(10):
        total, cpu = total + 5, cpu + 4 * 0.1 + 0.001
        for member in members:
            member.observe({"requests_total": total, "httpd_cpu_seconds": cpu}, 1.0, status_requests=1)
    assert capacities(members, [1.0] * 3) == pytest.approx([10.0] * 3, rel=0.05)


def test_a_report_without_requests_keeps_the_estimate() -> None:
    slow, fast = work(50), work(200)
    before = capacities([slow, fast], [1.0, 1.0])
    slow.observe({"cpu_count": 1.0, "httpd_cpu_seconds": 1000.0}, 1.0)
    assert capacities([slow, fast], [1.0, 1.0]) == pytest.approx(before, rel=0.01)


def test_an_uncertain_member_does_not_hide_differences() -> None:
    chance = Random(1)
    works = [noisy(speed, chance, 50) for speed in (50, 100, 200)]
    known = capacities(works, [1.0] * 3)
    strangers = [noisy(100, chance, 1, spread=2.0) for _ in range(7)]
    assert capacities(works + strangers, [1.0] * 10)[:3] == pytest.approx(known, rel=0.25)


def noisy(requests_per_cpu_second: float, chance: Random, per_second: int = 10, spread: float = 2.0) -> RequestCost:
    """Return the request cost of a member whose requests vary widely in size."""
    found = RequestCost()
    cpu = 0.0
    for second in range(120):
        metrics = {"requests_total": float(per_second * second), "httpd_cpu_seconds": cpu, "cpu_count": 1.0}
        found.observe(metrics, 1.0)
        cpu += sum(chance.lognormvariate(-(spread**2) / 2, spread) for _ in range(per_second)) / requests_per_cpu_second
    return found


@pytest.mark.parametrize("seed", range(5))
def test_equal_members_are_shrunk_together(seed: int) -> None:
    chance = Random(seed)
    works = [noisy(100, chance) for _ in range(10)]
    looks = [work.requests / work.cpu_seconds for work in works]
    found = capacities(works, [1.0] * 10)
    assert max(found) / min(found) < 1 + 0.5 * (max(looks) / min(looks) - 1)


@pytest.mark.parametrize("seed", range(5))
def test_members_that_really_differ_stay_apart(seed: int) -> None:
    chance = Random(seed)
    works = [noisy(speed, chance, speed // 2, spread=0.5) for speed in (50, 100, 100, 400)]
    found = capacities(works, [1.0] * 4)
    looks = [work.requests / work.cpu_seconds for work in works]
    assert found == pytest.approx(looks, rel=0.06)


def test_equal_sizes_have_no_variance() -> None:
    assert work(100).relative_variance == pytest.approx(0.0, abs=1e-9)
    assert RequestCost().relative_variance == math.inf


@given(
    st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(0, 1e3), st.floats(0.1, 64)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_capacities_are_always_positive_numbers(members: list[tuple[float, float, float]], chance: Random) -> None:
    works = []
    for speed, per_second, _ in members:
        found, total, cpu = RequestCost(), 0.0, 0.0
        for _ in range(8):
            found.observe({"requests_total": total, "httpd_cpu_seconds": cpu}, 1.0)
            total += per_second * chance.random()
            cpu += per_second * chance.random() / speed
        works.append(found)
    for capacity in capacities(works, [cores for _, _, cores in members]):
        assert 0 < capacity < math.inf


def test_impossible_values_are_removed() -> None:
    told = {"cpu_count": 2.0, "requests_total": 1e12, "cpu_idle": 0.0}
    assert plausible(told) is told
    assert plausible({**told, "cpu_count": 2.3e-308}) == {"requests_total": 1e12, "cpu_idle": 0.0}
    assert plausible({**told, "cpu_count": 0.0, "busy_workers": 1.7e308}) == {"requests_total": 1e12, "cpu_idle": 0.0}


@pytest.mark.parametrize(
    ("reported", "most", "counted"),
    [
        ([2.0, 4.0, 8.0], 0.0, [2.0, 4.0, 8.0]),
        ([2.0, 2.0, 1e6], 0.0, [2.0, 2.0, 8.0]),
        ([2.0, 1e6], 0.0, [2.0, 8.0]),  # the smaller of two decides
        ([2.0, 2.0, 1e6], 64.0, [2.0, 2.0, 64.0]),
        ([2.0, None, 4.0], 0.0, [2.0, 3.0, 4.0]),
        ([None, 0.0], 0.0, [1.0, 1.0]),
        ([], 0.0, []),
    ],
)
def test_cores_that_count(reported: list[float | None], most: float, counted: list[float]) -> None:
    assert counted_cores(reported, most) == counted


@pytest.mark.parametrize(
    "impossible",
    [
        {"requests_total": 1e9, "httpd_cpu_seconds": 1.0},
        {"requests_total": 100.0, "httpd_cpu_seconds": 2.6},  # on two cores, in one second
        {"requests_total": 100.0, "httpd_cpu_seconds": 1e9},
    ],
)
def test_impossible_increases_count_for_nothing(impossible: dict[str, float]) -> None:
    member = RequestCost()
    member.observe({"requests_total": 0.0, "httpd_cpu_seconds": 0.0, "cpu_count": 2.0}, 1.0)
    member.observe({**impossible, "cpu_count": 2.0}, 1.0)
    assert (member.requests, member.cpu_seconds) == (0.0, 0.0)


def test_a_member_that_claims_to_be_a_thousand_times_faster_does_not_decide_for_the_others() -> None:
    before = capacities([work(100), work(110), work(90)], [1.0] * 3)
    after = capacities([work(100), work(110), work(100_000)], [1.0] * 3)
    assert after[:2] == pytest.approx(before[:2], rel=0.1)
    assert after[2] < 50 * before[2]
