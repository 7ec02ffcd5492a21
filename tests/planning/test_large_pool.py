"""Tests of large pools, which are planned in turns: the plans are the same as in one go, whatever happens between."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lbdns.answering.answer_table import AnswerTable
from lbdns.model.farm import Farm, Pool
from lbdns.model.overrides import NO_OVERRIDES, Override, Overrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.planning import farm_plans, planner
from lbdns.planning.farm_plans import FarmPlans
from lbdns.planning.large_pool import LargePoolPlanning
from lbdns.planning.planner import Planner
from lbdns.planning.state_announcer import StateAnnouncer
from lbdns.policies.steps import Steps
from tests.answering.farms import HOBBIT, make_farm, pool
from tests.overriding import drains
from tests.planning.manual_loop import ManualLoop

POLICIES: Final = ("best", "weighted", "round_robin", "least_charged", "best_score")
ALL: Final = tuple(f"m{number}" for number in range(8))


def farm_of(members: tuple[str, ...]) -> Farm:
    text = HOBBIT + "".join(f"{name} A 127.1.0.{number + 1}\n" for number, name in enumerate(ALL))
    return make_farm(
        {"hobbit": text}, [pool(members=members, names={name.replace("_", "-"): name for name in POLICIES})]
    )


MEMBERS: Final = HOBBIT + "".join(f"{name} A 127.1.0.{number + 1}\n" for number, name in enumerate(ALL))
FULL: Final = pool(members=("m0", "m1"), names={"web": "round_robin"}, backup="spare")
SPARE: Final = pool(name="spare", members=("m2", "m3", "m4"), names={"spare": "round_robin"})


class Twins:
    """A planner that plans its pool in turns of one step, and another one that makes each plan in one go, at the moment
    at which the first one begins it."""

    def __init__(self) -> None:
        self.loop, self._served, self._version = ManualLoop(), dict.fromkeys(ALL, 0.0), 0
        self.farm = farm_of(ALL)
        self.table, self.other_table = AnswerTable(self.farm), AnswerTable(self.farm)
        self.other = FarmPlans(StateAnnouncer(None, True), None, True)
        self.other.use(self.farm, self.other_table.cursors, self.loop.now)
        self.begun = 0
        self._elsewhere = 0
        self._begin: Callable[..., Steps[bool]] = FarmPlans.large_pool_steps
        self.readings: dict[str, Reading] = {}

    def large_pool_steps(
        self, plans: FarmPlans, pool: Pool, snapshot: Snapshot, overrides: Overrides, clock: Callable[[], float]
    ) -> Steps[bool]:
        self.begun += 1
        self.other.plan(pool, snapshot, overrides, clock())
        return self._begin(plans, pool, snapshot, overrides, clock)

    def start(self) -> None:
        self.planner = Planner(self.farm, self.table.cursors, self.loop.as_loop)

    def report(self, chance: Random) -> None:
        members = [member.full_name for member in self.farm.pools[0].members]
        for full in chance.sample(members, chance.randint(1, len(members))):
            name, cores, busy = full.partition(".")[0], chance.choice([1.0, 2.0, 8.0]), chance.randint(0, 20)
            self._served[name] += chance.randint(0, 200)
            metrics = {
                "cpu_count": cores,
                "busy_workers": float(busy),
                "run_queue": float(chance.randint(0, 12)),
                "requests_per_s": chance.uniform(0, 200),
                "requests_total": self._served[name],
                "httpd_cpu_seconds": self._served[name] / chance.choice([40.0, 41.0]),
                "cpu_idle": chance.uniform(0, 100),
            }
            alarm = "overload" if chance.random() < 0.1 else ""
            self.readings[full] = Reading(self.loop.now, 1.0, 100 - 5 * busy, metrics, alarm)
        self._version += 1
        self.planner.deliver(Snapshot(self._version, dict(self.readings)))

    def override(self, chance: Random) -> None:
        chosen = chance.sample(ALL, chance.randint(0, 3))
        self.planner.override(drains(*(f"{name}.hobbit" for name in chosen)) if chosen else NO_OVERRIDES)

    def weigh(self, chance: Random) -> None:
        name = f"{chance.choice(ALL)}.hobbit"
        factor = chance.choice([0.5, 2.0])
        self.planner.override(Overrides((Override("weight", name, by="root", reason="test", factor=factor),)))

    def elsewhere(self, chance: Random) -> None:
        """Report answers of this server's other processes, to both planners."""
        self._elsewhere += (count := chance.randint(1, 50))
        before = self.planner._elsewhere is not None or self._elsewhere != count
        self.planner.count_elsewhere({("web", "best"): self._elsewhere})
        if before:
            self.other.choosers["web"].count_elsewhere("best", count, self.loop.now)

    def answer(self, chance: Random) -> None:
        """Send answers, when no plan is in progress."""
        self.run()
        for policy in POLICIES:
            for _ in range(chance.randint(0, 30)):
                mine, other = self.table.cursors["web", policy], self.other_table.cursors["web", policy]
                assert mine.next() == other.next()

    def wait(self, chance: Random) -> None:
        """Let time pass; members that do not report fall silent."""
        self.run()
        self.loop.now += chance.choice([0.1, 0.5, 1.0, 2.5])

    def explain(self, chance: Random) -> None:
        """Read the state, which changes nothing."""
        self.planner.upcoming(self.farm.pools[0])
        self.planner.guards("web")
        self.planner.capacities("web")

    def reload(self, chance: Random) -> None:
        self.farm = farm_of(tuple(sorted(chance.sample(ALL, chance.randint(2, len(ALL))))))
        for both in ("table", "other_table"):
            table = AnswerTable(self.farm)
            table.take_over(getattr(self, both))
            setattr(self, both, table)
        self._use()

    def _use(self) -> None:
        if self.planner._large:
            self.planner._large.finish()
            self.planner._large = None
        self.other.use(self.farm, self.other_table.cursors, self.loop.now)
        self.planner.use(self.farm, self.table.cursors)

    def run(self, turns: int = 10_000) -> None:
        for _ in range(turns):
            if not self.loop.run_turn():
                break

    def compare(self) -> None:
        """Require the same plans of both planners, once no plan is in progress."""
        self.run()
        assert self.planner._large is None
        mine, other = self.planner._plans.choosers["web"], self.other.choosers["web"]
        assert mine.liveness == other.liveness
        assert mine.guards(self.loop.now) == other.guards(self.loop.now)
        for policy in POLICIES:
            one, two = self.table.cursors["web", policy], self.other_table.cursors["web", policy]
            assert one.plan == two.plan, policy
            assert one.totals() == two.totals(), policy


KINDS: Final = ("report", "report", "report", "override", "weigh", "elsewhere", "answer", "wait", "explain", "reload")
ACTIONS: Final = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2**32), st.integers(0, 60)), max_size=25)


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Twins]:
    """Return a function that makes new twins, of which every pool is large and every turn has one step."""
    monkeypatch.setattr(farm_plans, "LARGE", 1)
    monkeypatch.setattr(planner, "LAST_STEP", -1.0)
    begin = FarmPlans.large_pool_steps

    def make() -> Twins:
        made = Twins()
        made._begin = begin

        def steps(plans: FarmPlans, *args: Any) -> Steps[bool]:
            return made.large_pool_steps(plans, *args)

        monkeypatch.setattr(FarmPlans, "large_pool_steps", steps)
        made.start()
        return made

    return make


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
@example(actions=[("report", seed, 30) for seed in range(4)] + [("answer", 4, 0), ("report", 5, 20), ("weigh", 6, 7)])
@example(actions=[("report", 1, 9), ("reload", 2, 11), ("report", 3, 500), ("elsewhere", 4, 3), ("wait", 5, 0)])
def test_the_plans_are_those_made_in_one_go(twins: Callable[[], Twins], actions: list[tuple[str, int, int]]) -> None:
    both = twins()
    for kind, seed, turns in actions:
        getattr(both, kind)(Random(seed))
        both.run(turns)
    both.compare()


def test_an_override_is_planned_after_the_plan_in_progress(twins: Callable[[], Twins]) -> None:
    both = twins()
    both.run()
    both.report(Random(1))
    both.run(3)
    assert both.planner._large is not None
    begun = both.begun
    both.planner.override(drains("m0.hobbit"))
    assert both.begun == begun, "the plan in progress is completed first"
    both.run()
    assert both.begun == begun + 1
    assert 0 not in both.table.cursors["web", "round_robin"].plan.order
    both.compare()


@pytest.mark.parametrize("turns", range(0, 70, 9))
def test_an_override_of_a_backup_reaches_the_pool_whose_plan_is_in_progress(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(farm_plans, "LARGE", 4)
    monkeypatch.setattr(planner, "LAST_STEP", -1.0)
    farm, loop = make_farm({"hobbit": MEMBERS}, [FULL, SPARE]), ManualLoop()
    table = AnswerTable(farm)
    plans = Planner(farm, table.cursors, loop.as_loop)
    drained = drains("m0.hobbit", "m1.hobbit")  # all answers name members of the backup
    plans.override(drained)
    plans.deliver(Snapshot(1, {f"{name}.hobbit": Reading(loop.now, 1.0, 50, {"cpu_count": 1.0}) for name in ALL}))
    loop.run_all()
    plans.deliver(Snapshot(2, {f"{name}.hobbit": Reading(loop.now, 1.0, 60, {"cpu_count": 1.0}) for name in ALL}))
    for _ in range(turns):
        loop.run_turn()
    plans.override(Overrides((*drained.items, *drains("m2.hobbit", pool="spare").items)))
    loop.run_all()
    assert set(table.cursors["web", "round_robin"].plan.order) == {3, 4}


def test_queries_are_answered_between_the_steps(twins: Callable[[], Twins]) -> None:
    both = twins()
    both.run()
    both.report(Random(1))
    cursor, turns = both.table.cursors["web", "round_robin"], 0
    before, answered = sum(cursor.totals()), 0
    while both.loop.run_turn():
        cursor.next()
        turns, answered = turns + 1, answered + 1
    assert turns > 30
    assert sum(cursor.totals()) == before + answered, "every answer is counted once"
    assert sum(cursor.selections().counts) < answered, "the new plan has counted those of the previous one"


def test_a_planner_that_stops_does_no_further_step(twins: Callable[[], Twins]) -> None:
    both = twins()
    both.run(3)
    plans = {key: cursor.plan for key, cursor in both.table.cursors.items()}
    both.planner.stop()
    both.run()
    assert {key: cursor.plan for key, cursor in both.table.cursors.items()} == plans


@pytest.mark.parametrize("at_once", [False, True])
def test_changes_wait_until_the_planning_has_ended(at_once: bool) -> None:
    def steps() -> Steps[bool]:
        yield
        yield
        return True

    done: list[str] = []
    planning = LargePoolPlanning("web", steps())
    assert planning.step() is None
    planning.defer(lambda: done.append("first"))
    planning.defer(lambda: done.append("second"))
    assert planning.step() is None
    assert done == []
    assert (planning.finish() if at_once else planning.step()) is True
    assert done == ["first", "second"]


def test_a_plan_that_fails_ends_the_planning(twins: Callable[[], Twins], monkeypatch: pytest.MonkeyPatch) -> None:
    both = twins()
    both.run()
    plan = both.table.cursors["web", "best"].plan
    monkeypatch.setattr("lbdns.choosing.chooser.Chooser.plan_steps", lambda *_: 1 / 0)
    both.report(Random(1))
    both.run()
    assert both.planner._large is None
    assert both.table.cursors["web", "best"].plan is plan
