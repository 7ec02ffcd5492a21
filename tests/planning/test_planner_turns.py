"""Tests of planning many pools in turns of the event loop, and of pools whose planning fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.choosing.chooser import Chooser
from lbdns.events.event_log import EventLog
from lbdns.model.overrides import NO_OVERRIDES
from lbdns.planning import farm_plans, planner
from lbdns.planning.planner import Planner
from lbdns.policies.steps import Steps
from tests.answering.farms import HOBBIT, MEMBERS, hobbit, make_farm, pool
from tests.overriding import drains
from tests.planning.planner_log import SHORT, messages
from tests.server.clients import until
from tests.server.readings import Readings

# Many pools


class Large:
    """A farm with so many pools that planning all of them takes several turns of the event loop."""

    POOLS = 12

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(planner, "TURN", 0.0)  # s: each turn is over after one pool
        self.loop = asyncio.get_running_loop()
        self.farm = hobbit(*(pool(f"p{n}", names={f"p{n}": "round_robin"}) for n in range(self.POOLS)))
        self.table = AnswerTable(self.farm)
        self.planner = Planner(self.farm, self.table.cursors, self.loop, events=EventLog())
        self.readings = Readings()

    def report(self, *members: str) -> None:
        self.planner.deliver(self.readings.report(self.loop.time(), members=members))

    def planned(self, size: int) -> int:
        """Return the number of pools whose plans have ``size`` members."""
        return sum(len(set(handout.plan.order)) == size for handout in self.table.cursors.values())


async def test_the_event_loop_runs_between_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    farm = Large(monkeypatch)
    await until(lambda: not farm.planner._due)
    seen: list[int] = []

    def look() -> None:
        seen.append(farm.planned(1))
        if seen[-1] < farm.POOLS:
            farm.loop.call_soon(look)

    farm.planner._pause_until = 0.0
    farm.report("frodo")
    look()
    await until(lambda: seen[-1] == farm.POOLS)
    assert seen == list(range(1, farm.POOLS + 1)), "a pool at a time"
    farm.planner.stop()


async def test_the_readings_of_a_pool_are_recorded_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    farm = Large(monkeypatch)
    await until(lambda: not farm.planner._due)
    monkeypatch.setattr(farm_plans, "AT_ONCE", 1)
    farm.planner._pause_until = 0.0
    farm.report("frodo", "gandalf")
    seen: list[tuple[int, int]] = []

    def look() -> None:
        choosers = farm.planner._plans.choosers.values()
        recorded = sum(reading is not None for chooser in choosers for reading in chooser.pool.readings)
        seen.append((recorded, farm.planned(2)))
        if seen[-1][1] < farm.POOLS:
            farm.loop.call_soon(look)

    look()
    await until(lambda: seen[-1][1] == farm.POOLS)
    assert seen[:4] == [(1, 0), (2, 1), (3, 1), (4, 2)], "a reading per turn, and the plan in the turn of the last one"
    farm.planner.stop()


async def test_a_snapshot_during_a_pass_is_planned_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    farm = Large(monkeypatch)
    heard: list[int] = []
    farm.planner.subscribe(lambda: heard.append(farm.planner.snapshot.version))
    for members in (("frodo",), ("bilbo",), ("gandalf",)):
        farm.report(*members)
    await until(lambda: farm.planned(3) == farm.POOLS and not farm.planner._due and len(heard) >= 1)
    assert farm.planner._pause_until > 0, "a pause follows, so that planning leaves time for queries"
    farm.report("frodo")
    await until(lambda: not farm.planner._due and not farm.planner._repeat)
    assert heard[-1] == 4
    farm.planner.stop()


async def test_until_their_turn_pools_keep_their_old_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    farm = Large(monkeypatch)
    farm.report("frodo", "gandalf")
    await until(lambda: farm.planned(2) == farm.POOLS)
    last = f"p{farm.POOLS - 1}"
    assert farm.table.cursors[last, "round_robin"].next() == 1
    new = AnswerTable(farm.farm)
    new.take_over(farm.table)
    farm.planner.use(new.farm, new.cursors)
    handout = new.cursors[last, "round_robin"]
    assert [handout.next() for _ in range(3)] == [2, 1, 2], "unknown bilbo is left out, and the turns continue"
    farm.planner.stop()


async def test_an_override_takes_effect_during_a_pass_and_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    farm = Large(monkeypatch)
    last = farm.table.cursors[f"p{farm.POOLS - 1}", "round_robin"]
    await until(lambda: not farm.planner._due)
    farm.report(*MEMBERS)
    assert farm.planner._due, "others have to wait"
    farm.planner.override(drains("frodo.hobbit", pool=f"p{farm.POOLS - 1}"))
    assert set(last.plan.order) == {0, 2}
    await until(lambda: not farm.planner._due)
    assert farm.planned(3) == farm.POOLS - 1
    assert farm.planner._pause_until > 0, "a pause follows the pass"
    farm.planner._pause_until = farm.loop.time() + 60.0  # s: not over yet, even on a slow machine
    farm.planner.override(NO_OVERRIDES)
    assert set(last.plan.order) == {0, 1, 2}
    farm.planner.stop()


class TwoPools:
    """Two pools, of which the first one's planning can be made to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.farm = make_farm({"hobbit": HOBBIT}, [pool(), pool(name="other", names={"other": "round_robin"})])
        self.table, self.loop = AnswerTable(self.farm), asyncio.get_running_loop()
        self.broken, self.attempts = False, 0
        observe = Chooser.observe_steps

        def observed(chooser: Chooser, *args: Any) -> Steps[bool]:
            if self.broken and chooser is self.planner._plans.choosers["web"]:
                self.attempts += 1
                raise RuntimeError("a bug")
            return observe(chooser, *args)

        self.planner = Planner(self.farm, self.table.cursors, self.loop, events=EventLog())
        monkeypatch.setattr(Chooser, "observe_steps", observed)
        self.readings = Readings()

    def report(self, interval: float = 60.0) -> None:
        self.planner.deliver(self.readings.report(self.loop.time(), interval))

    def order(self, name: str) -> list[str]:
        plan = self.table.cursors[name, "round_robin"].plan
        return [MEMBERS[i] for i in sorted(set(plan.order[plan.repeat_from :]))]


async def test_a_pool_whose_planning_fails_keeps_its_plan_and_harms_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pools = TwoPools(monkeypatch)
    pools.report()
    answers = pools.table.cursors["web", "round_robin"]
    for _ in range(3):
        answers.next()
    counted = pools.planner.answers()
    pools.broken = True
    pools.planner.override(drains("frodo.hobbit"))
    await until(lambda: pools.order("other") == ["bilbo", "gandalf"])
    assert pools.order("web") == list(MEMBERS)
    assert messages(caplog, "planning failed")[0] == "pool web: planning failed; its last plans stay in force"
    assert pools.planner.answers() == counted
    pools.broken = False  # it is tried again without a report
    await until(lambda: pools.order("web") == ["bilbo", "gandalf"])
    assert pools.planner.answers() == counted
    pools.planner.stop()


async def test_a_pool_whose_planning_fails_is_not_tried_without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = TwoPools(monkeypatch)
    pools.report(SHORT / 4)
    pools.broken = True
    await until(lambda: pools.attempts)  # all members fall silent, so that new plans are due
    await asyncio.sleep(10 * SHORT / 4)
    assert pools.attempts <= 3
    pools.planner.stop()


async def test_a_policy_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pools = TwoPools(monkeypatch)
    pools.report()
    plan, counted = Chooser.plan_steps, pools.planner.answers()
    monkeypatch.setattr(Chooser, "plan_steps", lambda *_: 1 / 0)
    pools.planner.override(drains("frodo.hobbit"))
    await until(lambda: len(messages(caplog, "planning failed")) >= 2)
    assert pools.order("web") == pools.order("other") == list(MEMBERS)
    monkeypatch.setattr(Chooser, "plan_steps", plan)
    await until(lambda: pools.order("web") == pools.order("other") == ["bilbo", "gandalf"])
    assert pools.planner.answers() == counted
    pools.planner.stop()
