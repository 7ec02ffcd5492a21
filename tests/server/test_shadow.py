"""Tests of shadow mode in the server: shadows follow live plans, are counted, and never affect answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering.answer_table import AnswerTable
from lbdns.config import CollectorConfig, PoolConfig
from lbdns.counting.answer_counters import NO_COUNTS, AnswerCounters, read_counters
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.planning.planner import Planner
from lbdns.policies import POLICIES
from lbdns.process.apply_configuration import commit_all
from lbdns.server.local_answerer import LocalAnswerer
from lbdns.server.server_families import dns_families
from lbdns.server.server_status import ServerStatus
from tests.answering.farms import HOBBIT, MEMBERS, make_farm
from tests.overriding import drains
from tests.server.test_server_families import sample, scraped

ALL: Final = {policy.replace("_", "-"): policy for policy in POLICIES}
BEST: Final = {"best": "best"}


def farm_of(shadow: str = "", score: str = "", names: dict[str, str] = ALL, members: tuple[str, ...] = MEMBERS) -> Farm:
    pool = PoolConfig("web", "hobbit", members, names, shadow=shadow)
    return make_farm({"hobbit": HOBBIT}, [pool], CollectorConfig(shadow_score=score))


class Clock:
    """An event loop's clock that is set by the test. Scheduled callbacks are never called."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Any:
        return self

    call_soon = call_at

    def cancel(self) -> None:
        pass


class Server:
    """A planner and its plan cursors, in virtual time and with a fixed random seed."""

    def __init__(self, farm: Farm) -> None:
        self.table = AnswerTable(farm)
        self.clock = Clock()
        self.planner = Planner(farm, self.table.cursors, self.clock)  # type: ignore[arg-type]
        self.planner._plans._rng.seed(1)
        self._readings: dict[str, Reading] = {}

    def report(self, *members: str, score: int = 50, tried: int | None = None, busy: float = 1.0) -> None:
        self.clock.now += 0.3
        for member in members or MEMBERS:
            metrics = {"busy_workers": busy, "requests_per_s": 10.0}
            self._readings[f"{member}.hobbit"] = Reading(self.clock.now, 1.0, score, metrics, shadow_score=tried)
        self.planner.deliver(Snapshot(self.planner.snapshot.version + 1, dict(self._readings)))

    def answer(self, policy: str, count: int = 1) -> list[str]:
        handout = self.table.cursors["web", policy]
        return [MEMBERS[handout.next()] for _ in range(count)]

    def reload(self, farm: Farm) -> None:
        table = AnswerTable(farm)
        table.take_over(self.table)
        self.table = table
        self.planner.use(farm, table.cursors)

    def shadow(self, policy: str, name: str) -> tuple[dict[str, int], int]:
        """Return the shadow's number of selections of each member, and how many selections it would have diverted."""
        figures = self.planner.shadow_counters()
        answers = {
            member.removesuffix(".hobbit"): count
            for (_, live, shadow, member), count in figures.shadow_answers.items()
            if (live, shadow) == (policy, name)
        }
        return answers, figures.diverted["web", policy, name]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("answer"), st.sampled_from(sorted(POLICIES)), st.integers(1, 40)),
        st.tuples(st.just("report"), st.sampled_from(MEMBERS), st.integers(0, 100)),
        st.tuples(st.just("drain"), st.sampled_from(MEMBERS), st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(1, 50)),
        st.tuples(st.just("reload"), st.just(""), st.just(0)),
    ),
    max_size=15,
)


@settings(max_examples=30, deadline=None)
@given(STEPS, st.sampled_from(sorted(POLICIES)), st.sampled_from(["", "idle"]))
def test_live_answers_are_the_same_with_a_shadow_and_without(
    history: list[tuple[str, str, int]], shadow: str, score: str
) -> None:
    plain, shadowed = farm_of(), farm_of(shadow, score)
    servers = Server(plain), Server(shadowed)
    for what, which, count in [("report", member, 50) for member in MEMBERS] + history:
        if what == "answer":
            assert servers[0].answer(which, count) == servers[1].answer(which, count)
        for server, farm in zip(servers, (plain, shadowed), strict=True):
            if what == "report":
                server.report(which, score=count, tried=100 - count, busy=count / 10)
            elif what == "drain":
                now = {override.member for override in server.planner.overrides.items}
                server.planner.override(drains(*sorted(now ^ {f"{which}.hobbit"})))
            elif what == "wait":
                server.clock.now += count / 10
                server.planner.deliver(server.planner.snapshot)
            elif what == "reload":
                server.reload(farm)
        one, other = ({key: handout.plan for key, handout in s.table.cursors.items()} for s in servers)
        assert one == other
    figures = servers[1].planner.shadow_counters()
    for (pool, policy, name), diverted in figures.diverted.items():
        live = sum(servers[1].table.cursors[pool, policy].totals())
        assert sum(n for key, n in figures.shadow_answers.items() if key[:3] == (pool, policy, name)) == live
        assert 0 <= diverted <= live


def test_without_shadows_nothing_is_counted() -> None:
    server = Server(farm_of())
    server.report()
    server.answer("best", 5)
    assert server.planner.shadow_counters() == NO_COUNTS


def test_another_policy_in_the_shadow() -> None:
    server = Server(farm_of("best_score", names={"turns": "round_robin"}))
    server.report(score=50)
    server.report("frodo", score=90)
    server.answer("round_robin", 9)
    assert server.shadow("round_robin", "best_score") == ({"bilbo": 0, "frodo": 9, "gandalf": 0}, 0)
    server.report("gandalf", score=95)
    assert server.shadow("round_robin", "best_score")[1] == 6, "of nine, two times three would have gone elsewhere"
    server.answer("round_robin", 3)
    server.report()
    assert server.shadow("round_robin", "best_score") == ({"bilbo": 0, "frodo": 9, "gandalf": 3}, 8)


def test_another_score_in_the_shadow() -> None:
    server = Server(farm_of(score="idle", names={"top": "best_score", "turns": "round_robin"}))
    server.report("bilbo", score=90, tried=10)
    server.report("frodo", score=50, tried=80)
    server.report("gandalf", score=40, tried=None)
    assert server.answer("best_score", 4) == ["bilbo"] * 4
    server.report("bilbo", score=90, tried=10)
    assert server.shadow("best_score", "best_score/idle") == ({"bilbo": 0, "frodo": 4, "gandalf": 0}, 4)
    assert len(server.planner.shadow_counters().diverted) == 1, "turns don't go by scores"


def test_a_pool_that_fails_open_has_nothing_to_divert() -> None:
    server = Server(farm_of("best_score", names=BEST))
    server.report()
    server.answer("best", 1)
    server.clock.now += 60
    server.planner.deliver(server.planner.snapshot)
    assert server.planner.failing_open == {"web": True}
    before = server.shadow("best", "best_score")[1]
    server.answer("best", 7)
    server.report()
    assert server.shadow("best", "best_score")[1] == before


def test_a_shadow_continues_after_a_reload_with_the_remaining_members() -> None:
    server = Server(farm_of("best_score", names=BEST))
    server.report()
    server.report("gandalf", score=90, busy=500.0)
    server.answer("best", 100)
    answers, _ = server.shadow("best", "best_score")
    assert answers["gandalf"] == 100
    server.reload(farm_of("best_score", names=BEST, members=("gandalf", "bilbo")))
    after, diverted = server.shadow("best", "best_score")
    assert after == {"gandalf": 100, "bilbo": 0}
    assert diverted == 78, "all beyond light traffic, counted when the old plan ended"


async def test_counts_of_removed_shadows_are_kept() -> None:
    """No counter decreases when the members or the shadow change, or when the shadow is removed."""
    farm = farm_of("round_robin", names={"top": "best_score"})
    table = AnswerTable(farm)
    answerer = LocalAnswerer(table)
    loop = asyncio.get_running_loop()
    try:
        reading = Reading(loop.time(), 60.0, 50)
        answerer.deliver(Snapshot(1, {f"{member}.hobbit": reading for member in MEMBERS}))
        for _ in range(6):
            table.cursors["web", "best_score"].next()
        answerer.deliver(Snapshot(2, {f"{m}.hobbit": Reading(loop.time(), 60.0, len(m)) for m in MEMBERS}))
        key = ("web", "best_score", "round_robin")
        first = answerer.counters()
        assert {name: first.shadow_answers[*key, f"{name}.hobbit"] for name in MEMBERS} == dict.fromkeys(MEMBERS, 2)
        for shadow, members in (("round_robin", MEMBERS[:2]), ("weighted", MEMBERS[:2]), ("", MEMBERS)):
            new = AnswerTable(farm_of(shadow, names={"top": "best_score"}, members=members))
            await commit_all([answerer.prepare_change(new, (), {}, set())])
            now = answerer.counters()
            assert first.beyond(now) == NO_COUNTS, shadow
            assert answerer.shadow_counters().shadow_answers == now.shadow_answers
            assert answerer.shadow_counters().diverted == now.diverted
    finally:
        await answerer.stop()


def figures() -> AnswerCounters:
    key = ("web", "best", "best_score/idle")
    return AnswerCounters(
        shadow_answers={(*key, "bilbo.hobbit"): 3, (*key, "frodo.hobbit"): 1, (*key, "gone.hobbit"): 7},
        diverted={key: 2},
    )


def test_figures_add_up_and_travel_as_plain_data() -> None:
    both = figures() + figures()
    assert both.diverted == {("web", "best", "best_score/idle"): 4}
    assert both.shadow_answers["web", "best", "best_score/idle", "bilbo.hobbit"] == 6
    assert both.beyond(figures()) == figures()
    assert read_counters(msgpack.unpackb(msgpack.packb(both.state()))) == both


def test_a_server_that_knows_no_shadows_can_be_taken_over_from() -> None:
    state = {key: value for key, value in figures().state().items() if key not in ("shadow_answers", "diverted")}
    assert read_counters(state) == NO_COUNTS


@pytest.mark.parametrize("change", [{"diverted": [["web", "best", 4]]}, {"shadow_answers": [["a", "b", "c", "d", -1]]}])
def test_invalid_counters_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not valid counters"):
        read_counters({**figures().state(), **change})


def test_in_metrics() -> None:
    found = scraped(dns_families(farm_of("best_score", "idle", BEST), figures()))
    labels = {"pool": "web", "policy": "best", "shadow": "best_score/idle"}
    for member, count in (("bilbo", 3), ("frodo", 1), ("gandalf", 0)):
        assert found[sample("lbdns_shadow_answers_total", **labels, member=member)] == count
    assert found[sample("lbdns_shadow_diverted_total", **labels)] == 2
    assert not any("shadow" in name for name, _ in scraped(dns_families(farm_of(), figures())))


async def test_the_status_includes_inherited_shadow_counters() -> None:
    farm = farm_of("best_score", "idle", BEST)
    answerer = LocalAnswerer(AnswerTable(farm))
    source = ServerStatus(farm, answerer, EventLog())
    try:
        (before,) = source.selection.shadows()["web"]
        source.counters.inherit(figures())
        (now,) = source.selection.shadows()["web"]
        assert (before.live, before.policy, before.score) == ("best", "best_score", "idle")
        assert (list(before.answers), before.diverted) == ([0, 0, 0], 0)
        assert (list(now.answers), now.diverted) == ([3, 1, 0], 2)
        source.members.farm = farm_of()
        assert source.selection.shadows() == {"web": []}
    finally:
        await answerer.stop()
