"""Tests of address family affinity: a client's related queries are answered with one member, which is charged once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import dns.flags
import pytest

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.member_selection import AFFINITY_SLOTS, FAMILY_TYPES, OPEN, FamilyAffinity, PlanCursor
from lbdns.answering.plane import Plane
from lbdns.answering.responder import Responder
from lbdns.config import RateLimitConfig
from lbdns.policies.plan import Plan
from tests.answering.asking import TCP, UDP, make_query, make_responder, read
from tests.answering.asking_types import AAAA, HTTPS, ONE, OTHER, SPAN, A, ask, new_responder, on_both
from tests.answering.configured import configured
from tests.answering.farms import MEMBERS, hobbit, pool


def totals(responder: Responder, policy: str = "best") -> list[int]:
    return responder.table.cursors["web", policy].totals()


# What a client sees


@on_both
@pytest.mark.parametrize("order", list(itertools.permutations(("A", "AAAA", "HTTPS"))))
def test_all_types_of_a_client_get_one_member_and_cost_one_charge(plane: Plane, order: Sequence[str]) -> None:
    responder = new_responder(plane)
    for number, member in enumerate(("bilbo", "frodo", "gandalf", "bilbo"), 1):
        assert [ask(responder, ONE, rtype) for rtype in order] == [member] * 3
        assert sum(totals(responder)) == number
    assert responder.counters()["coherent"] == 8
    assert responder.counters()["repeated"] == 0


@on_both
def test_other_types_have_their_own_turn(plane: Plane) -> None:
    responder = new_responder(plane)
    found = [ask(responder, ONE, rtype) for rtype in ("A", "TXT", "CNAME", "AAAA", "ANY")]
    assert found == ["bilbo", "frodo", "gandalf", "bilbo", "bilbo"]


@on_both
@pytest.mark.parametrize("ways", list(itertools.product((UDP, TCP), repeat=2)))
def test_the_transport_does_not_matter(plane: Plane, ways: tuple[int, int]) -> None:
    responder = new_responder(plane)
    for member in MEMBERS:
        assert [ask(responder, ONE, rtype, transport=way) for rtype, way in zip(("A", "AAAA"), ways, strict=True)] == [
            member,
            member,
        ]


@on_both
def test_another_address_is_another_client_and_another_port_is_not(plane: Plane) -> None:
    responder = new_responder(plane)
    assert [ask(responder, host, "A", port=5000) for host in (ONE, OTHER)] == ["bilbo", "frodo"]
    assert [ask(responder, host, "AAAA", port=6000) for host in (OTHER, ONE)] == ["frodo", "bilbo"]


@on_both
def test_names_of_one_pool_and_policy_are_one_and_others_are_not(plane: Plane) -> None:
    responder = new_responder(plane)
    assert ask(responder, ONE, "A") == "bilbo"
    assert ask(responder, ONE, "AAAA", "weighted.hobbit") == "bilbo"
    assert ask(responder, ONE, "A", "weighted.hobbit") == "bilbo"
    assert ask(responder, ONE, "AAAA", "WWW.hobbit") == "bilbo", "an alias of best.hobbit"
    assert (sum(totals(responder)), sum(totals(responder, "weighted"))) == (1, 1)


@on_both
@pytest.mark.parametrize(("seconds", "same"), [(0.0, True), (1.99, True), (2.0, False), (30.0, False)])
def test_it_holds_for_two_seconds(plane: Plane, seconds: float, same: bool) -> None:
    responder = new_responder(plane)
    first = ask(responder, ONE, "A")
    responder.tick(responder.now + seconds, 0.0)
    assert (ask(responder, ONE, "AAAA") == first) == same


@on_both
def test_the_time_counts_from_the_first(plane: Plane) -> None:
    responder = new_responder(plane)
    first = ask(responder, ONE, "A")
    responder.tick(responder.now + 1.5, 0.0)
    assert ask(responder, ONE, "AAAA") == first
    responder.tick(responder.now + 1.0, 0.0)
    assert ask(responder, ONE, "HTTPS") != first


@on_both
def test_it_can_be_set_and_switched_off(plane: Plane) -> None:
    responder = new_responder(plane, coherence=0.5)
    first = ask(responder, ONE, "A")
    responder.tick(responder.now + 0.6, 0.0)
    assert ask(responder, ONE, "AAAA") != first
    responder = new_responder(plane, coherence=0)
    assert [ask(responder, ONE, rtype) for rtype in ("A", "AAAA", "HTTPS")] == list(MEMBERS)
    assert responder.counters()["coherent"] == 0


@on_both
def test_rotation_counts_lookups(plane: Plane) -> None:
    responder = new_responder(plane)
    asked = ("A", "AAAA", "HTTPS", "A", "AAAA", "A", "AAAA", "AAAA", "A")
    found = [ask(responder, ONE, rtype, "round.robin.hobbit") for rtype in asked]
    bilbo, frodo, gandalf = MEMBERS
    assert found == [bilbo] * 3 + [frodo] * 2 + [gandalf] * 2 + [bilbo] * 2
    assert totals(responder, "round_robin") == [2, 1, 1]


@on_both
def test_behind_a_resolver_the_newest_lookup_comes_first(plane: Plane) -> None:
    responder = new_responder(plane)
    assert [ask(responder, ONE, "A") for _ in MEMBERS] == list(MEMBERS)
    assert [ask(responder, ONE, "AAAA") for _ in MEMBERS] == list(MEMBERS[::-1])
    assert sum(totals(responder)) == 3


@on_both
def test_behind_a_shared_address_the_port_tells_lookups_apart(plane: Plane) -> None:
    responder = new_responder(plane)
    ports = (5001, 5002, 5003)
    assert [ask(responder, ONE, "A", port=port) for port in ports] == list(MEMBERS)
    assert [ask(responder, ONE, "AAAA", port=port) for port in ports] == list(MEMBERS)
    assert [ask(responder, ONE, "HTTPS", port=port) for port in ports[::-1]] == list(MEMBERS[::-1])


@on_both
@pytest.mark.parametrize("lone", ["A", "AAAA", "HTTPS"])
@pytest.mark.parametrize("order", [("A", "AAAA"), ("AAAA", "A")])
def test_a_lone_query_from_another_port_separates_no_pair(plane: Plane, lone: str, order: Sequence[str]) -> None:
    responder = new_responder(plane)
    for turn in range(20):
        if turn % 5 == 0:
            ask(responder, ONE, lone, port=9000 + turn)
        first = ask(responder, ONE, order[0], port=5000 + turn)
        if turn % 5 == 1:
            ask(responder, ONE, lone, port=9000 + turn)
        assert ask(responder, ONE, order[1], port=5000 + turn) == first, turn


def run_lookups(responder: Responder, order: Sequence[str], pause: float, number: int = 12) -> list[bool]:
    """Return for each lookup whether both queries, which come from different ports, got the same member."""
    found = []
    for _ in range(number):
        responder.tick(responder.now + pause, 0.0)
        first = ask(responder, ONE, order[0])
        responder.tick(responder.now + 20e-6, 0.0)
        found.append(ask(responder, ONE, order[1]) == first)
    return found


@on_both
@pytest.mark.parametrize("lone", ["A", "AAAA", "HTTPS"])
@pytest.mark.parametrize("before", [0.06, 1.0])
def test_pairs_find_each_other_again_after_a_lone_query(plane: Plane, lone: str, before: float) -> None:
    responder = new_responder(plane)
    ask(responder, ONE, lone)
    responder.tick(responder.now + before, 0.0)
    assert all(run_lookups(responder, ("A", "AAAA"), pause=400e-6))


@on_both
@pytest.mark.parametrize("lone", ["A", "AAAA", "HTTPS"])
@pytest.mark.parametrize("order", [("A", "AAAA"), ("AAAA", "A")])
def test_a_known_client_is_not_put_out_of_step(plane: Plane, lone: str, order: Sequence[str]) -> None:
    responder = new_responder(plane)
    run_lookups(responder, order, pause=400e-6)
    for _ in range(5):
        responder.tick(responder.now + 150e-6, 0.0)
        ask(responder, ONE, lone)
        assert all(run_lookups(responder, order, pause=250e-6))


@on_both
def test_a_new_client_whose_order_is_unusual_finds_its_step(plane: Plane) -> None:
    responder = new_responder(plane)
    ask(responder, ONE, "A")
    found = run_lookups(responder, ("AAAA", "A"), pause=400e-6, number=40)
    assert all(found[12:]), "after a few lookups, the delays show which queries belong together"


@on_both
@pytest.mark.parametrize("order", [("A", "AAAA"), ("AAAA", "A")])
def test_a_delayed_query_puts_nothing_out_of_step(plane: Plane, order: Sequence[str]) -> None:
    responder = new_responder(plane)
    for turn in range(40):
        responder.tick(responder.now + 300e-6, 0.0)
        first = ask(responder, ONE, order[0])
        responder.tick(responder.now + (0.02 if turn % 7 == 3 else 200e-6), 0.0)
        assert ask(responder, ONE, order[1]) == first, turn
    assert sum(totals(responder)) == 40


# What may not be given


@on_both
@pytest.mark.parametrize("usable", [None, (1, 2)])
def test_a_member_that_can_not_be_handed_out_is_not_repeated(plane: Plane, usable: Sequence[int] | None) -> None:
    responder = new_responder(plane)
    handout = responder.table.cursors["web", "best"]
    handout.set_plan(Plan((0,)), (0, 1, 2))
    assert ask(responder, ONE, "A") == "bilbo"
    handout.set_plan(Plan((1, 2)), usable)
    assert ask(responder, ONE, "AAAA") == "frodo"
    assert ask(responder, ONE, "HTTPS") == "frodo", "the one that took its place"
    assert totals(responder) == [1, 1, 0]


@on_both
def test_a_member_that_has_only_lost_its_place_is(plane: Plane) -> None:
    responder = new_responder(plane)
    handout = responder.table.cursors["web", "best"]
    handout.set_plan(Plan((0,)), (0, 1, 2))
    query = make_query("best.hobbit", "A")
    first = responder.respond(query, (ONE, 1024))
    handout.set_plan(Plan((1,)), (0, 1))
    assert ask(responder, ONE, "AAAA") == "bilbo"
    assert responder.respond(query, (ONE, 1024)) == first, "neither a type nor a datagram that comes again"
    assert totals(responder) == [1, 0, 0]


@on_both
def test_a_query_over_the_rate_limit_joins_nothing(plane: Plane) -> None:
    farm = configured(hobbit(), rate_limit=RateLimitConfig(responses_per_second=1, slip=0, exempt=()))
    responder = Responder(AnswerTable(farm, plane))
    responder.tick(1000.0, 0.0)
    assert [ask(responder, ONE, rtype) for rtype in ("A", "AAAA")] == ["bilbo", "bilbo"]
    for _ in range(3):
        assert responder.respond(make_query("best.hobbit", "A"), (ONE, 1)) is None
    responder.tick(1001.0, 0.0)
    assert [ask(responder, ONE, rtype) for rtype in ("AAAA", "A")] == ["frodo", "frodo"]
    assert totals(responder) == [1, 1, 0]


@on_both
def test_an_answer_without_a_member_is_not_remembered(plane: Plane) -> None:
    responder = make_responder(hobbit(pool(answer="address")), plane)
    for rtype in ("HTTPS", "TXT"):
        read(responder.respond(make_query("best.hobbit", rtype), (ONE, 1)))
    first = read(responder.respond(make_query("best.hobbit", "A"), (ONE, 2))).answer[0]
    assert [str(rdata) for rdata in first] == ["127.0.0.16"]
    assert read(responder.respond(make_query("best.hobbit", "AAAA"), (ONE, 3))).answer == [], "bilbo has none"
    assert totals(responder) == [1, 0, 0]


@on_both
@pytest.mark.parametrize("rtypes", [("AAAA", "A"), ("HTTPS", "A")])
def test_an_answer_that_is_cut_joins_nothing(plane: Plane, rtypes: tuple[str, str]) -> None:
    # What is measured is the member that the client would get, not the one that is due
    responder = make_responder(hobbit(more="".join(f"frodo A 127.1.0.{number}\n" for number in range(60))), plane)
    handout = responder.table.cursors["web", "best"]
    handout.set_plan(Plan((1, 0)))
    first, second = rtypes
    assert ask(responder, ONE, first) == "frodo"
    assert handout.due == 0, "whose answer is short"
    for _ in range(2):
        cut = read(responder.respond(make_query("best.hobbit", second), (ONE, 9)))
        assert cut.flags & dns.flags.TC
    assert ask(responder, ONE, second, transport=TCP) == "frodo"
    assert ask(responder, ONE, second) == "bilbo"
    assert totals(responder) == [1, 1, 0]


@on_both
def test_a_datagram_that_comes_again_gets_what_it_had_joined(plane: Plane) -> None:
    responder = new_responder(plane)
    query = make_query("best.hobbit", "AAAA")
    assert ask(responder, ONE, "A") == "bilbo"
    first = responder.respond(query, (ONE, 7))
    assert b"bilbo" in first  # type: ignore[operator]
    for _ in range(3):
        assert responder.respond(query, (ONE, 7)) == first
    counters = responder.counters()
    assert (counters["coherent"], counters["repeated"], sum(totals(responder))) == (1, 3, 1)


@on_both
def test_a_reload_keeps_the_count_and_forgets_the_members(plane: Plane) -> None:
    responder = new_responder(plane)
    assert ask(responder, ONE, "A") == ask(responder, ONE, "AAAA")
    table = AnswerTable(hobbit(pool(members=MEMBERS[::-1])), plane)
    table.take_over(responder.table)
    responder.use(table)
    assert responder.counters()["coherent"] == 1
    ask(responder, ONE, "HTTPS")
    assert sum(table.cursors["web", "best"].totals()) == 2


# The memory itself


def rival(responder: Responder, host: str) -> str:
    """Return another client whose queries for best.hobbit use the same affinity slot."""
    number = responder.table.cursors["web", "best"].number
    mark = responder.selector.affinity.mark
    slot = mark(host, number) % AFFINITY_SLOTS
    addresses = (f"10.{a}.{b}.{c}" for a in range(64) for b in range(256) for c in range(256))
    return next(one for one in addresses if mark(one, number) % AFFINITY_SLOTS == slot)


@on_both
def test_no_more_than_a_few_are_kept_open(plane: Plane) -> None:
    responder = new_responder(plane)
    handed_out = [ask(responder, ONE, "A") for _ in range(OPEN + 2)]
    assert [ask(responder, ONE, "AAAA") for _ in range(OPEN)] == handed_out[:1:-1], "the oldest are forgotten"
    assert sum(totals(responder)) == OPEN + 2
    ask(responder, ONE, "AAAA")
    assert sum(totals(responder)) == OPEN + 3


@on_both
def test_another_client_on_the_same_slot_takes_it(plane: Plane) -> None:
    responder = new_responder(plane)
    other = rival(responder, ONE)
    assert ask(responder, ONE, "A") == "bilbo"
    assert ask(responder, other, "AAAA") == "frodo", "it joins nothing of somebody else's"
    assert ask(responder, other, "A") == "frodo"
    assert ask(responder, ONE, "AAAA") == "gandalf", "which was forgotten"
    assert ask(responder, ONE, "A") == "gandalf"
    assert responder.counters()["coherent"] == 2


@on_both
def test_asking_who_it_would_be_moves_nothing(plane: Plane) -> None:
    responder = new_responder(plane)
    coherence, number = responder.selector.affinity, responder.table.cursors["web", "best"].number
    mark = coherence.mark(ONE, number)
    assert [coherence.member(mark, 7, which, 1000.0, SPAN) for which in (A, AAAA, HTTPS)] == [None] * 3
    ask(responder, ONE, "A")
    for _ in range(2):
        assert [coherence.member(mark, 7, which, 1001.0, SPAN) for which in (A, AAAA, HTTPS)] == [None, 0, 0]
    assert [coherence.member(mark, 7, which, 1002.0, SPAN) for which in (A, AAAA, HTTPS)] == [None] * 3


@on_both
def test_address_and_hand_out_tell_clients_apart(plane: Plane) -> None:
    joins = plane.member_selector().affinity
    hosts = (ONE, "192.0.2.2", OTHER, "2001:db8::2")
    assert len({joins.mark(host, handout) for host in hosts for handout in range(3)}) == 12
    assert joins.mark(ONE, 1) == joins.mark(ONE, 1)


def test_every_type_has_its_number() -> None:
    assert sorted(FAMILY_TYPES.values()) == list(range(len(FAMILY_TYPES)))


def test_however_many_its_size_is_the_same() -> None:
    affinity, cursor = FamilyAffinity(), PlanCursor(3, affinity_window=SPAN)
    size = [len(cells) for cells in affinity._slots]
    assert len(size) == AFFINITY_SLOTS
    for number in range(3 * AFFINITY_SLOTS):
        affinity.give(cursor, f"10.0.{number % 40_000}", number % 50_000, number % 3, number / 1000)
    assert [len(cells) for cells in affinity._slots] == size
