"""Tests of the planner: plans follow snapshots, overrides and time."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.events.event_log import EventLog
from lbdns.model.overrides import NO_OVERRIDES
from lbdns.planning import planner as planner_module
from lbdns.planning.planner import Planner
from lbdns.process.duty_cycle import DutyCycle
from tests.answering.farms import MEMBERS, hobbit, make_farm, pool
from tests.overriding import drains
from tests.planning.planner_log import SHORT, messages
from tests.server.clients import until
from tests.server.readings import Readings


@pytest.fixture(autouse=True)
def _one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do all planning and announcing in one turn, although a busy machine may take longer than a turn lasts."""
    monkeypatch.setattr(planner_module, "TURN", 60.0)


class Fixture:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.table = AnswerTable(hobbit())
        self.planner = Planner(self.table.farm, self.table.cursors, self.loop, events=EventLog())
        self.readings = Readings()

    def order(self, policy: str = "round_robin") -> list[str]:
        """Return each member in the plan once, in the pool's order."""
        plan = self.table.cursors["web", policy].plan
        return [MEMBERS[i] for i in sorted(set(plan.order[plan.repeat_from :]))]

    def report(self, members: tuple[str, ...] = MEMBERS, interval: float = 60.0, score: int = 50) -> None:
        self.planner.deliver(self.readings.report(self.loop.time(), interval, score, members))


@pytest.fixture
async def farm() -> Iterator[Fixture]:  # type: ignore[misc]
    fixture = Fixture()
    yield fixture
    fixture.planner.stop()


async def test_before_the_first_report_all_members_take_turns(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    farm = Fixture()
    assert messages(caplog, "pool web: no report yet")
    assert all(farm.order(policy) == list(MEMBERS) for policy in ("best", "round_robin", "weighted"))
    assert farm.planner.failing_open == {"web": True}
    assert farm.planner.fail_opens == 1, "no member is usable yet, so all are selected"


async def test_a_report_changes_every_plan_at_once(farm: Fixture) -> None:
    farm.report(("frodo",), score=70)
    assert farm.order() == ["frodo"]
    farm.report(("bilbo", "gandalf"), score=60)
    assert farm.order() == list(MEMBERS)
    plan = farm.table.cursors["web", "best"].plan
    assert MEMBERS[plan.order[0]] == "frodo", "the highest score"
    assert farm.planner.failing_open == {"web": False}


async def test_an_unchanged_snapshot_changes_no_plan(farm: Fixture) -> None:
    farm.report()
    plan = farm.table.cursors["web", "round_robin"].plan
    farm.planner.deliver(farm.planner.snapshot)
    assert farm.table.cursors["web", "round_robin"].plan is plan


async def test_a_silent_member_leaves_the_plan_without_any_report(
    farm: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    farm.report(("bilbo", "frodo"))
    reported = farm.loop.time()
    farm.report(("gandalf",), interval=SHORT)
    assert farm.order() == list(MEMBERS)
    caplog.clear()
    await until(lambda: farm.order() == ["bilbo", "frodo"])
    assert farm.loop.time() - reported >= 3 * SHORT - 0.01
    (told,) = messages(caplog, "gandalf")
    assert re.fullmatch(r"pool web: gandalf is silent \(was usable\): no report for \d+\.\d s", told)
    farm.report(("gandalf",))
    assert farm.order() == list(MEMBERS)


async def test_fail_open_is_announced_once_and_ends(farm: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    farm.report(interval=SHORT)
    assert farm.planner.failing_open == {"web": False}
    caplog.clear()
    await until(lambda: farm.planner.failing_open["web"])
    assert farm.order("best") == list(MEMBERS)
    farm.planner.deliver(farm.planner.snapshot)
    assert len(messages(caplog, "fails open: no member is usable")) == 1
    assert farm.planner.fail_opens == 2
    farm.report()
    assert farm.planner.failing_open == {"web": False}
    assert len(messages(caplog, "no longer fails open")) == 1
    farm.report(interval=SHORT)
    await until(lambda: farm.planner.fail_opens == 3)
    assert len(messages(caplog, "fails open: no member is usable")) == 2


async def test_the_rotation_continues_across_plans(farm: Fixture) -> None:
    handout = farm.table.cursors["web", "round_robin"]
    handed = []
    for number in range(10):
        handed.append(handout.next())
        if number % 2:
            farm.report()
    assert handed == [i % 3 for i in range(10)]


async def test_drained_members_are_left_out(farm: Fixture) -> None:
    farm.report()
    farm.planner.override(drains("frodo.hobbit"))
    assert farm.order() == ["bilbo", "gandalf"]
    farm.planner.override(NO_OVERRIDES)
    assert farm.order() == list(MEMBERS)


WELL = {"requests_total": 9.0, "listen_queue": 0.0}


def reports(planner: Planner, readings: Readings, times: int, dead: str, **metrics: float) -> None:
    """Deliver ``times`` reports from all members, with ``metrics`` in those of member ``dead``."""
    for _ in range(times):
        now = asyncio.get_running_loop().time()
        readings.report(now, members=tuple(m for m in MEMBERS if m != dead), metrics=dict(WELL))
        planner.deliver(readings.report(now, members=(dead,), metrics=metrics))


async def test_a_quarantine_is_announced_when_it_begins_and_ends(
    farm: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    reports(farm.planner, farm.readings, 2, "frodo", **WELL)
    reports(farm.planner, farm.readings, 4, "frodo", cpu_idle=99.0)
    assert farm.order() == ["bilbo", "gandalf"]
    assert [guard.quarantined for guard in farm.planner.guards("web")] == [False, True, False]
    why = "nothing listens on its server-status port"
    assert messages(caplog, "quarantined") == [f"pool web: frodo is quarantined: {why}"]
    farm.planner.use(farm.table.farm, farm.table.cursors)
    assert farm.order() == ["bilbo", "gandalf"], "a reload forgets no quarantine"
    reports(farm.planner, farm.readings, 2, "frodo", **WELL)
    assert farm.order() == list(MEMBERS)
    assert messages(caplog, "quarantined")[1:] == [
        f"pool web: frodo is no longer quarantined (duration: 0 s; reason: {why})"
    ]
    assert farm.planner.guards("nobody") == ()


async def test_a_process_without_cursors_uses_the_selections_of_others(caplog: pytest.LogCaptureFixture) -> None:
    handed, asked = Counter[str](), []

    def answers(pool: str) -> Counter[str]:
        asked.append(pool)
        return handed

    planner, readings = (
        Planner(hobbit(), {}, asyncio.get_running_loop(), events=EventLog(), answers=answers),
        Readings(),
    )
    for errors in range(5):
        reports(planner, readings, 1, "frodo", **WELL, errors_total=float(errors))
        assert not asked or errors > 0, "only while it matters"
        assert not planner.guards("web")[1].quarantined, "no member was selected"
    handed["frodo.hobbit"] += 3
    reports(planner, readings, 1, "frodo", **WELL, errors_total=5.0)
    planner.stop()
    assert [guard.quarantined for guard in planner.guards("web")] == [False, True, False]
    why = "it serves no requests, and its errors are rising"
    assert messages(caplog, "quarantined") == [f"pool web: frodo is quarantined: {why}"]


async def test_subscribers_are_notified_until_they_unsubscribe(farm: Fixture) -> None:
    heard: list[float] = []
    leave = farm.planner.subscribe(lambda: heard.append(farm.loop.time()))
    farm.report(interval=SHORT)
    assert len(heard) == 1
    farm.planner.deliver(farm.planner.snapshot)
    assert len(heard) == 1, "nothing has changed"
    await until(lambda: farm.planner.failing_open["web"])
    assert len(heard) >= 2
    leave()
    count = len(heard)
    farm.report()
    assert len(heard) == count


async def test_a_reload_keeps_what_is_known(farm: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    farm.report(("bilbo",), score=10)
    farm.report(("gandalf",), score=90)
    farm.table = AnswerTable(hobbit(pool(members=[*MEMBERS, "ns"])))
    farm.planner.use(farm.table.farm, farm.table.cursors)
    assert farm.order() == ["bilbo", "gandalf"]
    assert MEMBERS[farm.table.cursors["web", "best"].plan.order[0]] == "gandalf"
    assert farm.planner.fail_opens == 1
    assert not messages(caplog, "is usable (was unknown)") or len(messages(caplog, "was unknown")) == 2, (
        "announced once"
    )


async def test_a_reload_may_leave_no_pool(farm: Fixture) -> None:
    farm.report(interval=SHORT)
    farm.planner.use(make_farm({}), {})
    assert farm.planner.failing_open == {}
    farm.report()


async def test_nothing_happens_after_stop(farm: Fixture) -> None:
    farm.report(interval=SHORT)
    farm.planner.stop()
    await asyncio.sleep(5 * SHORT)  # there is nothing that could be awaited
    assert farm.planner.failing_open == {"web": False}


async def test_a_process_without_cursors_follows_the_states(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    planner = Planner(hobbit(), {}, asyncio.get_running_loop(), events=EventLog())
    planner.deliver(Readings().report(planner._loop.time()))
    planner.stop()
    assert planner.failing_open == {"web": False}
    assert messages(caplog, "bilbo is usable")


async def test_an_observer_pauses_after_every_pass(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    loop, readings = asyncio.get_running_loop(), Readings()
    planner = Planner(hobbit(), {}, loop, events=EventLog(), pause=DutyCycle(0.0, shortest=3600.0))
    planner.deliver(readings.report(loop.time(), members=("bilbo",)))
    assert planner.failing_open == {"web": True}, "the pause after the first pass is not over"
    planner.deliver(readings.report(loop.time(), members=("frodo",)))
    planner._take_turn()  # as the timer does after the pause
    assert planner.failing_open == {"web": False}
    assert messages(caplog, "bilbo is usable")
    assert messages(caplog, "frodo is usable")
    assert planner._pause_until > loop.time()
    planner.stop()


async def test_planning_works_without_an_event_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    table = AnswerTable(hobbit())
    planner = Planner(table.farm, table.cursors, asyncio.get_running_loop())
    planner.deliver(Readings().report(planner._loop.time(), members=("frodo",)))
    planner.stop()
    assert table.cursors["web", "round_robin"].plan.order == (1,)
    assert not messages(caplog, "pool web")
