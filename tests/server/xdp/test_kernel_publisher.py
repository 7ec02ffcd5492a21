"""Tests of what is published to the kernel: the answers, the plans, and how the kernel's answers are counted."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.plane import PYTHON_PLANE, Plane
from lbdns.answering.responder import Responder
from lbdns.config import PoolConfig
from lbdns.model.farm import Farm
from lbdns.policies.plan import Plan
from lbdns.server.xdp.kernel_publisher import KernelPublisher
from tests.answering.asking import client, make_query
from tests.answering.farms import hobbit, pool
from tests.planes import PLANES
from tests.server.xdp.fake_tables import FakeTables

STEADY = pool(answer="address", members=("bilbo", "gandalf"), coherence=0)


class Following:
    """A responder, and a kernel that follows it."""

    def __init__(self, farm: Farm, plane: Plane = PYTHON_PLANE, tables: FakeTables | None = None) -> None:
        self.kernel = tables or FakeTables()
        self.failures: list[Exception] = []
        self.publisher = KernelPublisher(self.kernel, self.failures.append)
        self.responder = Responder(AnswerTable(farm, plane))
        self._use(self.responder.table)

    def _use(self, table: AnswerTable) -> None:
        table.follower = self.publisher
        self.kernel.renew(3.0)
        self.publisher.use(table.farm, table.cursors)

    @property
    def table(self) -> AnswerTable:
        return self.responder.table

    def reload(self, farm: Farm) -> None:
        """Do what the server does at a reload."""
        self.publisher.forget()
        new = AnswerTable(farm, self.table.plane)
        new.take_over(self.table)
        self.responder.use(new)
        self._use(new)

    def ask(self, query: bytes) -> bytes:
        """Return the answer of the kernel, or else of the responder."""
        found = self.kernel.respond(query) or self.responder.respond(query, client())
        assert isinstance(found, bytes)
        return found

    def check(self) -> None:
        """Check that the kernel has exactly the answers and plans that the table has."""
        entries = self.table.entries
        assert set(self.kernel.questions) <= set(entries)
        for key, kinds in self.kernel.questions.items():
            entry, plan = entries[key], self.kernel.plan_of[key]
            for kind, variants in kinds.items():
                found = entry.variants[kind]
                assert found is not None
                assert tuple(found) == variants
            assert (plan is None) == (entry.cursor is None)
            if plan and entry.cursor:
                assert (plan.order, plan.repeat_from) == (tuple(entry.cursor.plan.order), entry.cursor.plan.repeat_from)


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> Plane:
    found: Plane = request.param
    return found


def answers_of(following: Following, query: bytes) -> bytes | None:
    """Ask twice, since the kernel learns the answer from the first one, and return what the kernel answers then."""
    following.ask(query)
    return following.kernel.respond(query)


KINDS = {
    "plain": {},
    "RD": {"recurse": True},
    "OPT": {"payload": 1232},
    "OPT, RD": {"payload": 4096, "recurse": True},
    "DO": {"payload": 1232, "dnssec_ok": True},
    "DO, RD": {"payload": 512, "dnssec_ok": True, "recurse": True},
}


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    ("name", "rtype"),
    [("hobbit", "SOA"), ("mail.hobbit", "A"), ("gandalf.hobbit", "AAAA"), ("www.hobbit", "A"), ("BILBO.hobbit", "TXT")],
)
def test_the_kernel_answers_with_the_same_bytes(plane: Plane, name: str, rtype: str, options: dict[str, int]) -> None:
    following = Following(hobbit(STEADY), plane)
    query = make_query(name, rtype, **options)  # type: ignore[arg-type]
    assert answers_of(following, query) == Responder(AnswerTable(hobbit(STEADY))).respond(query, client())


POOLS = {
    "no affinity": (pool(coherence=0), "A", True),
    "affinity": (pool(), "A", False),
    "affinity concerns no other type": (pool(), "TXT", True),
    "addresses of two families": (pool(answer="address"), "A", False),
    "addresses of one family": (pool(answer="address", members=("bilbo", "mail")), "A", True),
    "no address of that family": (pool(answer="address", members=("bilbo", "mail")), "AAAA", True),
    "several members": (pool(answer="address", members=("bilbo", "mail"), answers=2), "A", False),
}


@pytest.mark.parametrize(("config", "rtype", "is_answered"), POOLS.values(), ids=POOLS)
def test_which_names_of_pools_it_answers(plane: Plane, config: PoolConfig, rtype: str, is_answered: bool) -> None:
    following = Following(hobbit(config), plane)
    assert (answers_of(following, make_query("best.hobbit", rtype)) is not None) == is_answered
    following.check()


@pytest.mark.parametrize("name", ["nowhere.hobbit", "z.wild.hobbit", "huge.hobbit", "example.org"])
def test_what_the_server_itself_answers(plane: Plane, name: str) -> None:
    following = Following(hobbit(STEADY), plane)
    assert answers_of(following, make_query(name, "TXT")) is None


def test_a_new_plan_replaces_the_old_one_whole(plane: Plane) -> None:
    following = Following(hobbit(STEADY), plane)
    cursor = following.table.cursors["web", "round_robin"]
    query = make_query("round.robin.hobbit")
    following.ask(query)
    cursor.set_plan(Plan((1, 0, 0), repeat_from=1))
    following.check()
    (slot,) = following.kernel.plans
    assert [slot.next() for _ in range(6)] == [1, 0, 0, 0, 0, 0]


def test_answers_and_selections_of_the_kernel_are_counted(plane: Plane) -> None:
    following = Following(hobbit(STEADY), plane)
    cursor = following.table.cursors["web", "round_robin"]
    query = make_query("round.robin.hobbit")
    for _ in range(6):
        following.ask(query)
    following.publisher.count_selections()
    assert sum(cursor.totals()) == 6
    assert following.table.queries() == {("hobbit", 1, "udp", 0): 6}
    assert cursor.totals() == [4, 2], "both begin with the first member"
    assert cursor.selections().counts == (4, 2)


STRIDES = {
    "one CPU": ([500, 0, 0, 0], Plan((0, 1) * 8), 0),
    "hardly any answers of the others": ([500, 1, 0, 3], Plan((0, 1) * 8), 0),
    "all CPUs": ([100, 110, 90, 100], Plan((0, 1) * 8), 4),
    "two CPUs": ([0, 110, 0, 100], Plan((0, 1) * 8), 8),
    "answers beyond the expected ones": ([100, 110, 90, 100], Plan((0, 1) * 8, 8), 2),
    "light traffic": ([100, 110, 90, 100], Plan((0, 1) * 8, 8, light=True), 0),
    "few answers": ([9, 9, 9, 9], Plan((0, 1) * 8), 0),
}


@pytest.mark.parametrize(("by_cpu", "plan", "stride"), STRIDES.values(), ids=STRIDES)
def test_where_cpus_begin_a_plan(by_cpu: list[int], plan: Plan, stride: int) -> None:
    following = Following(hobbit(STEADY))
    following.ask(make_query("round.robin.hobbit"))
    following.kernel.by_cpu = by_cpu
    following.publisher.count_selections()
    following.table.cursors["web", "round_robin"].set_plan(plan)
    assert following.kernel.plans[0].stride == stride


def test_without_room_the_server_answers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    following = Following(hobbit(STEADY), tables=FakeTables(room=1))
    assert answers_of(following, make_query("bilbo.hobbit"))
    assert not answers_of(following, make_query("mail.hobbit"))
    assert not answers_of(following, make_query("frodo.hobbit"))
    assert following.publisher.is_full
    assert caplog.messages == ["xdp: no room for a question; the server itself answers the other questions"]
    following.reload(hobbit(STEADY))
    assert not following.publisher.is_full


def test_without_room_for_a_plan() -> None:
    following = Following(hobbit(STEADY), tables=FakeTables(plans=0))
    assert not answers_of(following, make_query("round.robin.hobbit"))
    assert answers_of(following, make_query("bilbo.hobbit"))


def test_a_plan_without_room_does_not_leave_the_old_one_in_force() -> None:
    following = Following(hobbit(STEADY), tables=FakeTables(longest_order=2))
    query = make_query("round.robin.hobbit")
    assert answers_of(following, query)
    following.table.cursors["web", "round_robin"].set_plan(Plan((0, 1, 0)))
    assert not answers_of(following, query)
    following.table.cursors["web", "round_robin"].set_plan(Plan((1,)))
    assert answers_of(following, query)


def test_a_reload_leaves_no_old_answer(plane: Plane) -> None:
    following = Following(hobbit(STEADY), plane)
    query, pooled = make_query("nas.hobbit"), make_query("round.robin.hobbit")
    following.reload(hobbit(STEADY, more="nas A 127.0.0.90\n"))
    old = following.ask(query)
    for _ in range(3):
        following.ask(query)
        following.ask(pooled)
    following.reload(hobbit(STEADY, more="nas A 127.0.0.91\n"))
    assert not following.kernel.questions
    assert not following.kernel.plans
    assert following.ask(query) != old
    following.check()
    assert following.table.queries() == {("hobbit", 1, "udp", 0): 8}, "nothing that the kernel has answered is lost"
    assert sum(following.table.cursors["web", "round_robin"].totals()) == 3


def test_a_table_that_forgets_its_entries(plane: Plane) -> None:
    following = Following(hobbit(STEADY), plane)
    assert answers_of(following, make_query("bilbo.hobbit"))
    following.table.forget_entries()
    assert not following.kernel.questions
    assert following.table.queries() == {("hobbit", 1, "udp", 0): 2}
    assert answers_of(following, make_query("bilbo.hobbit")) is None, "until the lease is renewed"
    following.kernel.renew(3.0)
    assert answers_of(following, make_query("bilbo.hobbit"))


NAMES = ["best", "round.robin", "weighted", "bilbo", "mail", "www", "nas", "sauron", "x.wild"]
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(NAMES), st.sampled_from(["A", "AAAA", "TXT"]), st.sampled_from([*KINDS])),
    st.tuples(st.just("plan"), st.lists(st.integers(0, 1), min_size=1, max_size=5), st.integers(0, 4)),
    st.tuples(st.just("reload"), st.sampled_from(["", "nas A 127.0.0.90\n", "nas A 127.0.0.91\nnas AAAA ::1\n"])),
    st.tuples(st.just("count")),
)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, max_size=40), room=st.integers(0, 8))
def test_the_kernel_has_what_the_table_has_and_every_answer_is_counted(
    steps: list[tuple[object, ...]], room: int
) -> None:
    """Whatever is asked, planned and reloaded, in any order."""
    following = Following(hobbit(STEADY), tables=FakeTables(room, plans=2, longest_order=4))
    asked = 0
    for step in steps:
        if step[0] == "ask":
            following.ask(make_query(f"{step[1]}.hobbit", str(step[2]), **KINDS[str(step[3])]))  # type: ignore[arg-type]
            asked += 1
        elif step[0] == "plan":
            assert isinstance(step[1], list)
            assert isinstance(step[2], int)
            for cursor in following.table.cursors.values():
                if len(step[1]) <= following.kernel.longest_order:
                    cursor.set_plan(Plan(tuple(step[1]), min(step[2], len(step[1]) - 1)), counted=cursor.selections())
        elif step[0] == "reload":
            following.reload(hobbit(STEADY, more=str(step[1])))
        else:
            following.publisher.count()
        following.check()
    assert sum(following.table.queries().values()) == asked
