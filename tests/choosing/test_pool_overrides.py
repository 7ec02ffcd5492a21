"""Operators' overrides in the chooser and the policies, in virtual time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.choosing.chooser import Chooser
from lbdns.choosing.pool_view import LOWEST_SCORE
from lbdns.model.overrides import NO_POOL_OVERRIDES, PoolOverrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.policies import POLICIES
from lbdns.policies.plan import Selections
from tests.policies.views import hand_out, handed, steered

NAMES = ("a.z", "b.z", "c.z")
EVERY_POLICY = pytest.mark.parametrize("policy", sorted(POLICIES))


def chooser(min_usable: float = 0.5, ramp_up: float = 0.0, names: tuple[str, ...] = NAMES) -> Chooser:
    return Chooser(names, 3.0, min_usable, Random(1), ramp_up=ramp_up)


def reading(now: float, score: int = 50, interval: float = 1.0, **fields: object) -> Reading:
    metrics = fields.pop("metrics", {"requests_per_s": 100.0, "busy_workers": 1.0, "cpu_count": 2.0})
    return Reading(received=now, interval=interval, score=score, metrics=metrics, **fields)  # type: ignore[arg-type]


def farm(now: float, **others: Reading | None) -> Snapshot:
    """Return a snapshot of identical reports, except for the given members; a member set to None has never reported."""
    found = {name: others.get(name[0], reading(now)) for name in NAMES}
    return Snapshot(1, {name: told for name, told in found.items() if told})


def handed_out(pool: Chooser, policy: str, now: float = 0.0, count: int = 300, busy: bool = True) -> Counter[int]:
    """Return how often each member is selected in ``count`` answers. ``busy`` means that traffic is not light."""
    before: Selections | None = None
    if busy:
        first = pool.plan(policy, None, now)
        before = handed(first, 1000)
        pool.observe(Snapshot(), pool.pool.overrides, now)  # no report since: all that is charged
    return Counter(hand_out(pool.plan(policy, before, now), count))


# Up


@EVERY_POLICY
@pytest.mark.parametrize(
    "other",
    [None, reading(-10.0), reading(0.0, alarm="run_queue"), reading(0.0, gone=True)],
    ids=["unknown", "silent", "alarm", "gone"],
)
def test_a_member_forced_up_is_selected_whatever_reports_say(policy: str, other: Reading | None) -> None:
    pool = chooser()
    pool.observe(farm(0.0, a=other), NO_POOL_OVERRIDES, 0.0)
    assert 0 not in pool.liveness.candidates
    assert pool.observe(farm(0.0, a=other), steered(up=["a.z"]), 0.0)
    assert pool.liveness.states == ("usable",) * 3
    assert not pool.liveness.fail_open
    if policy != "best_score":
        assert handed_out(pool, policy)[0] == pytest.approx(100, abs=45), (
            "as much as the others, of whom is known what they have to do"
        )
    else:
        assert handed_out(pool, policy)[0] == 0, "its score is unknown, so it is not the best"
    assert pool.observe(farm(0.0, a=other), NO_POOL_OVERRIDES, 0.1)
    assert 0 not in pool.liveness.candidates


@EVERY_POLICY
def test_a_member_forced_up_is_the_only_one_before_any_report(policy: str) -> None:
    pool = chooser()
    pool.observe(Snapshot(), NO_POOL_OVERRIDES, 0.0)
    assert pool.liveness.fail_open
    pool.observe(Snapshot(), steered(up=["b.z"]), 1.0)
    assert pool.liveness.states == ("unknown", "usable", "unknown")
    assert not pool.liveness.fail_open
    assert set(handed_out(pool, policy, 1.0)) == {1}


@EVERY_POLICY
def test_a_member_forced_up_is_never_overdue(policy: str) -> None:
    pool = chooser()
    pool.observe(farm(0.0), steered(up=["a.z"]), 0.0)
    later = Snapshot(2, {**farm(2.5).readings, "a.z": farm(0.0).readings["a.z"]})
    pool.observe(later, steered(up=["a.z"]), 2.5)
    assert handed_out(pool, policy, 2.5)[0] > 0
    assert not pool.view(policy, 2.5).members[0].overdue


def test_reports_of_a_member_forced_up_count_while_they_arrive() -> None:
    pool = chooser()
    pool.observe(farm(0.0, a=reading(0.0, 80)), steered(up=["a.z"]), 0.0)
    assert pool.view("best", 0.0).members[0].score == 80
    assert pool.next_change == pytest.approx(2.0)
    pool.observe(farm(2.9, a=reading(0.0, 80)), steered(up=["a.z"]), 2.9)
    assert pool.next_change == pytest.approx(3.0)
    assert pool.observe(farm(2.9, a=reading(0.0, 80)), steered(up=["a.z"]), 3.0), "its load is no longer known"
    assert pool.view("best", 3.0).members[0].score == LOWEST_SCORE
    assert pool.liveness.states[0] == "usable"
    assert pool.next_change > 3.0


@EVERY_POLICY
def test_forced_up_overrules_quarantine(policy: str) -> None:
    pool = chooser()
    now = black_hole(pool)
    assert pool.guards(now)[0].quarantined
    seen = pool_snapshot(now, dead=True)
    assert pool.observe(seen, steered(up=["a.z"]), now)
    assert pool.liveness.candidates == (0, 1, 2)
    assert not pool.guards(now)[0].why
    assert handed_out(pool, policy, now)[0] > 0 or policy == "best_score"
    pool.observe(seen, NO_POOL_OVERRIDES, now)
    assert pool.guards(now)[0].quarantined


def pool_snapshot(now: float, dead: bool) -> Snapshot:
    well = {"requests_total": 50.0 * now, "httpd_cpu_seconds": 0.2 * now, "cpu_count": 1.0, "listen_queue": 0.0,
            "requests_per_s": 50.0, "busy_workers": 1.0}  # fmt: skip
    told = {name: reading(now, metrics=well) for name in NAMES}
    if dead:  # nothing listens where its status page was
        told["a.z"] = reading(now, 90, metrics={"cpu_count": 1.0})
    return Snapshot(round(now) + 1, told)


def black_hole(pool: Chooser, pool_overrides: PoolOverrides = NO_POOL_OVERRIDES) -> float:
    """Make member a serve requests for a minute and then stop serving; return the time at the end."""
    for second in range(60):
        pool.observe(pool_snapshot(float(second), dead=False), pool_overrides, float(second))
    for second in range(60, 64):
        pool.observe(pool_snapshot(float(second), dead=True), pool_overrides, float(second))
    return 63.0


def test_small_weights_do_not_prevent_a_quarantine() -> None:
    pool = chooser()
    factors = {"b.z": 0.05, "c.z": 0.05}
    now = black_hole(pool, steered(factors=factors))
    assert pool.pool.measured
    assert pool.guards(now)[0].quarantined, "a weight changes a share, not a capacity"
    assert pool.liveness.candidates == (1, 2)


# Down, and drained


@EVERY_POLICY
@pytest.mark.parametrize("how", ["down", "drained"])
def test_down_and_drained_get_nothing(policy: str, how: str) -> None:
    pool = chooser()
    pool.observe(farm(0.0), NO_POOL_OVERRIDES, 0.0)
    assert pool.observe(farm(0.0), steered(down=["b.z"]) if how == "down" else steered(drained=["b.z"]), 0.0)
    assert pool.liveness.candidates == (0, 2)
    assert set(handed_out(pool, policy)) <= {0, 2}


@EVERY_POLICY
def test_fail_open_includes_members_forced_down_but_not_drained(policy: str) -> None:
    pool = chooser()
    orders = steered(drained=["a.z"], down=["b.z"])
    pool.observe(farm(0.0), orders, 0.0)
    assert pool.liveness.candidates == (2,)
    pool.observe(farm(0.0), orders, 10.0)
    assert pool.liveness.fail_open
    assert pool.liveness.states == ("drained", "alarm", "silent")
    assert pool.plan(policy, None, 10.0).order == (1, 2)


@EVERY_POLICY
def test_with_all_drained_all_are_selected(policy: str) -> None:
    pool = chooser()
    pool.observe(farm(0.0), steered(drained=NAMES), 0.0)
    assert pool.liveness.fail_open
    assert pool.plan(policy, None, 0.0).order == (0, 1, 2)


def test_drained_members_do_not_count_among_those_whose_reports_stopped() -> None:
    names = tuple(f"{name}.z" for name in "abcdef")
    pool = chooser(names=names)
    drained = steered(drained=names[:3])
    pool.observe(Snapshot(1, {name: reading(0.0) for name in names}), drained, 0.0)
    last = Snapshot(2, {**{name: reading(0.0) for name in names}, "f.z": reading(4.0)})
    pool.observe(last, drained, 4.0)
    assert pool.liveness.fail_open, "two of three"
    assert pool.liveness.candidates == (3, 4, 5)


def test_drained_members_cause_no_next_change() -> None:
    pool = chooser()
    pool.observe(farm(0.0, a=reading(0.0, interval=0.5), b=None, c=None), steered(drained=["a.z"]), 0.0)
    assert pool.next_change == math.inf
    pool.observe(farm(0.0, a=reading(0.0, interval=0.5), b=None, c=None), NO_POOL_OVERRIDES, 0.1)
    assert pool.next_change == pytest.approx(1.0)


def test_slow_start_follows_a_drain() -> None:
    pool = chooser(ramp_up=10.0)
    for second in range(10):
        pool.observe(farm(float(second)), steered(drained=["a.z"]), float(second))
    pool.observe(farm(10.0), NO_POOL_OVERRIDES, 10.0)
    assert pool.view("best", 10.0).members[0].ramp == pytest.approx(0.1)
    assert handed_out(pool, "weighted", 10.0)[0] < 30


# Weights


@pytest.mark.parametrize("policy", ["weighted", "least_charged", "two_choices"])
def test_a_weight_changes_the_shares(policy: str) -> None:
    shares = {}
    for factor in (1.0, 3.0):
        pool = chooser()
        pool.observe(farm(0.0), steered(factors={"a.z": factor}), 0.0)
        shares[factor] = handed_out(pool, policy, count=1000, busy=False)[0] / 1000
    assert shares[1.0] == pytest.approx(1 / 3, abs=0.06)
    assert shares[3.0] == pytest.approx(3 / 5, abs=0.06)


def test_best_by_weight_in_light_and_heavy_traffic() -> None:
    pool = chooser()
    pool.observe(farm(0.0, a=reading(0.0, 60)), steered(factors={"a.z": 0.5}), 0.0)
    assert 0 not in handed_out(pool, "best", count=5, busy=False), "30 points against 50"
    few = chooser()
    few.observe(farm(0.0, a=reading(0.0, 40)), steered(factors={"a.z": 2.0}), 0.0)
    assert set(handed_out(few, "best", count=5, busy=False)) == {0}
    shares = {}
    for factor in (0.2, 1.0, 5.0):
        many = chooser()
        before: Selections | None = None
        for second in range(15):
            many.observe(farm(float(second)), steered(factors={"a.z": factor}), float(second))
            plan = many.plan("best", before, float(second))
            before = handed(plan, 300)
        shares[factor] = Counter(hand_out(plan, 300))[0] / 300
    assert shares[0.2] < 0.15 < shares[1.0] < 0.45 < shares[5.0]


def test_best_score_by_weight() -> None:
    pool = chooser()
    pool.observe(farm(0.0, a=reading(0.0, 60)), steered(factors={"a.z": 0.5}), 0.0)
    assert set(handed_out(pool, "best_score")) == {1, 2}


def test_round_robin_ignores_weights() -> None:
    pool = chooser()
    pool.observe(farm(0.0), steered(factors={"a.z": 50.0}), 0.0)
    assert handed_out(pool, "round_robin") == {0: 100, 1: 100, 2: 100}


def test_a_new_weight_requires_new_plans() -> None:
    pool = chooser()
    seen = farm(0.0)
    pool.observe(seen, NO_POOL_OVERRIDES, 0.0)
    assert pool.observe(seen, steered(factors={"a.z": 2.0}), 0.0)
    assert not pool.observe(seen, steered(factors={"a.z": 2.0}), 0.0)
    assert pool.observe(seen, NO_POOL_OVERRIDES, 0.0)


# Any input

_ABSURD = st.sampled_from([1.7e308, -1.7e308, 1e17, 2.3e-308])  # finite, but impossible for any machine
_METRICS: st.SearchStrategy[dict[str, float]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "requests_total": st.integers(0, 500).map(float) | _ABSURD,
            "httpd_cpu_seconds": st.floats(0, 20) | _ABSURD,
            "cpu_idle": st.floats(0, 100) | _ABSURD,
            "cpu_count": st.floats(0, 8) | _ABSURD,
            "busy_workers": st.floats(0, 50) | _ABSURD,
            "requests_per_s": st.floats(0, 500) | _ABSURD,
            "listen_queue": st.integers(0, 2).map(float),
            "errors_total": st.integers(0, 50).map(float),
        },
    ),
)
_REPORT = st.tuples(
    st.integers(0, 3),  # who
    st.sampled_from([0.1, 1.0, 5.0]),  # how often it reports
    st.integers(-5, 100),
    _METRICS,
    st.sampled_from(["", "", "", "full"]),
    st.sampled_from([False, False, False, True]),
)
_STEERING = st.fixed_dictionaries(
    {
        "forced": st.dictionaries(
            st.sampled_from(["m0", "m1", "m2", "m3", "gone"]), st.sampled_from(["drained", "up", "down"])
        ),
        "factors": st.dictionaries(st.sampled_from(["m0", "m1", "m2", "m3"]), st.floats(0.01, 100)),
    }
)
_STEP = st.tuples(
    st.sampled_from([0.0, 0.01, 0.3, 1.0, 2.0, 7.0, 40.0]),  # s that pass
    st.lists(_REPORT, max_size=4),
    st.none() | _STEERING,  # None: as before
    st.integers(0, 200),  # selections
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_STEP, min_size=1, max_size=12), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 10.0]))
def test_any_reports_and_overrides(
    steps: list[
        tuple[
            float,
            list[tuple[int, float, int, Mapping[str, float], str, bool]],
            dict[str, dict[str, object]] | None,
            int,
        ]
    ],
    min_usable: float,
    ramp_up: float,
) -> None:
    names = ("m0", "m1", "m2", "m3")
    pool = chooser(min_usable, ramp_up, names)
    now, readings, pool_overrides = 100.0, dict[str, Reading](), NO_POOL_OVERRIDES
    given_out: dict[str, Selections | None] = dict.fromkeys(POLICIES)
    for seconds, reports, orders, count in steps:
        now += seconds
        for who, interval, score, metrics, alarm, gone in reports:
            readings[names[who]] = Reading(now, interval, score, metrics, alarm, gone)
        if orders is not None:
            pool_overrides = PoolOverrides(orders["forced"], orders["factors"])  # type: ignore[arg-type]
        pool.observe(Snapshot(1, dict(readings)), pool_overrides, now)
        for policy in POLICIES:
            check_plan(pool, policy, pool_overrides, given_out, now, count)
        follow_time(pool, Snapshot(1, dict(readings)), pool_overrides, now)


def check_plan(
    pool: Chooser,
    policy: str,
    pool_overrides: PoolOverrides,
    given_out: dict[str, Selections | None],
    now: float,
    count: int,
) -> None:
    plan = pool.plan(policy, given_out[policy], now)
    assert plan.order
    assert 0 <= plan.repeat_from < len(plan.order)
    drained = {i for i, name in enumerate(pool.members) if pool_overrides.forced_state(name) == "drained"}
    if len(drained) < len(pool.members):
        assert not drained.intersection(plan.order)
        assert not drained.intersection(pool.liveness.candidates)
    if any(pool_overrides.forced_state(name) == "up" for name in pool.members):
        down = {i for i, name in enumerate(pool.members) if pool_overrides.forced_state(name) == "down"}
        assert not pool.liveness.fail_open or "stopped at the same time" in pool.liveness.fail_open
        assert pool.liveness.fail_open or not down.intersection(plan.order)
    order = hand_out(plan, count)
    before = given_out[policy]
    counts = tuple(order.count(i) for i in range(len(pool.members)))
    given_out[policy] = Selections(plan, counts, order[-1] if order else before.last if before else None)


def follow_time(pool: Chooser, snapshot: Snapshot, pool_overrides: PoolOverrides, now: float) -> None:
    """Advance the time to each ``next_change``, as the server does. The changes must be in order, and must end."""
    pool.observe(snapshot, pool_overrides, now)
    for _ in range(40):
        due = pool.next_change
        assert due > now, "else the server would plan again at once, forever"
        if due == math.inf:
            return
        now = due
        pool.observe(snapshot, pool_overrides, now)
    pool.guards(now)
    assert pool.next_change - now > 0.1, "slow start is planned every second; everything else ends"
