"""Tests of the answer table's size, of its counts, and of what a reload carries over."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering import answer_table as table_module
from lbdns.answering.answer_table import OTHER_TYPE, AnswerTable
from lbdns.answering.responder import Responder
from lbdns.policies.plan import Plan
from tests.answering.asking import TCP, UDP, ask, client, make_query, make_responder, read, short
from tests.answering.farms import HOBBIT, hobbit, make_farm, pool

# What is kept


def test_made_up_names_and_types_leave_no_trace_but_a_count() -> None:
    responder = make_responder(hobbit())
    for number in range(3000):
        responder.respond(make_query(f"n{number}.hobbit"), client())
        responder.respond(make_query(f"n{number}.wild.hobbit"), client())
        responder.respond(make_query("best.hobbit", f"TYPE{number + 300}"), client())
        responder.respond(make_query("bilbo.hobbit", f"TYPE{number + 300}"), client())
        responder.respond(make_query(f"n{number}.example", f"TYPE{number + 300}"), client())
    assert not responder.table.entries
    asked = responder.table.queries()
    assert sum(asked.values()) == 15_000
    assert len(asked) < 10, "types that are nobody's are counted as one"


@pytest.mark.parametrize(
    ("more", "usual"),
    [("", {1, 28, 255, 5, 65, 15, 2, 16}), ("letter TYPE65400 \\# 0\n", {1, 28, 255, 5, 15, 2, 16})],
    ids=["usual zone", "a type spelt with letters makes HTTPS (the letter A) too risky to keep"],
)
def test_every_name_has_room_for_its_own_types_and_those_really_asked_for(more: str, usual: set[int]) -> None:
    responder = make_responder(hobbit(pool(), more=more))
    names = [f"{name}.hobbit" for name in ("bilbo", "gandalf", "odd", "best", "robin", "old")]
    for name, rtype in product(names, [*range(1, 300), 65280, 65400]):
        responder.respond(make_query(name, f"TYPE{rtype}"), client())
    assert {entry.qtype for entry in responder.table.entries.values()} == usual | {39, 65280}
    assert len(responder.table.entries) == len(names) * len(usual) + 2


def test_a_full_table_begins_anew_and_forgets_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "MAX_ENTRIES", 5)
    responder = make_responder(hobbit())
    for rtype in ("A", "AAAA", "MX", "TXT", "NS", "HTTPS", "CNAME", "A"):
        for _ in range(3):
            ask(responder, "best.hobbit", rtype)
        assert len(responder.table.entries) <= 5
    assert sum(responder.table.queries().values()) == 24


# Counting


def plan_of_questions() -> list[tuple[str, str, int, tuple[str, int, str, int]]]:
    """Return questions (name, type, transport) with the counter that each increments."""
    return [
        ("best.hobbit", "A", UDP, ("hobbit", 1, "udp", 0)),
        ("best.hobbit", "A", TCP, ("hobbit", 1, "tcp", 0)),
        ("BEST.hobbit", "AAAA", UDP, ("hobbit", 28, "udp", 0)),
        ("nobody.hobbit", "A", UDP, ("hobbit", 1, "udp", 3)),
        ("x.wild.hobbit", "TXT", TCP, ("hobbit", 16, "tcp", 0)),
        ("16.0.0.127.in-addr.arpa", "PTR", UDP, ("0.0.127.in-addr.arpa", 12, "udp", 0)),
        ("odd.hobbit", "TYPE65280", UDP, ("hobbit", OTHER_TYPE, "udp", 0)),
        ("odd.hobbit", "TYPE65279", UDP, ("hobbit", OTHER_TYPE, "udp", 0)),
        ("example.org", "A", UDP, ("", 1, "udp", 5)),
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([*plan_of_questions(), "forget", "reload"]), max_size=60))
def test_every_query_is_counted_once(steps: list[str | tuple[str, str, int, tuple[str, int, str, int]]]) -> None:
    farm = hobbit()
    responder = make_responder(farm)
    expected: dict[tuple[str, int, str, int], int] = {}
    for step in steps:
        match step:
            case "forget":
                responder.table.forget_entries()
            case "reload":
                fresh = AnswerTable(farm)
                fresh.take_over(responder.table)
                responder.table = fresh
            case (str(name), str(rtype), int(transport), (str(), int(), str(), int()) as counted):
                ask(responder, name, rtype, transport)
                expected[counted] = expected.get(counted, 0) + 1
    assert responder.table.queries() == expected


def test_what_is_no_query_of_ours_is_counted_by_its_rcode() -> None:
    responder = make_responder(hobbit())
    for wire in (b"\0" * 12, b"\0\0\x10" + b"\0" * 9, make_query("best.hobbit", payload=512, version=9)):
        read(responder.respond(wire, client()))
    responder.respond(b"", client())
    assert {asked[3]: count for asked, count in responder.table.queries().items()} == {1: 1, 4: 1, 16: 1}


# Reload


def handed(responder: Responder, name: str = "round.robin.hobbit") -> str:
    return short(ask(responder, name).answer)[0][2].split(".")[0]


def reloaded(responder: Responder, members: list[str]) -> Responder:
    fresh = AnswerTable(hobbit(pool(members=members)))
    fresh.take_over(responder.table)
    for handout in fresh.cursors.values():
        last = handout.selections().last
        order = range(len(members))
        behind = -1 if last is None else last
        handout.set_plan(Plan((*(i for i in order if i > behind), *(i for i in order if i <= behind))))
    return Responder(fresh)


@pytest.mark.parametrize(
    ("members", "following", "totals"),
    [
        (["bilbo", "frodo", "gandalf"], ["gandalf", "bilbo", "frodo"], [2, 2, 1]),
        (["bilbo", "frodo", "gandalf", "ns"], ["gandalf", "ns", "bilbo"], [2, 2, 1, 0]),
        (["gandalf", "frodo", "bilbo"], ["bilbo", "gandalf", "frodo"], [1, 2, 2]),
        (["frodo", "gandalf"], ["gandalf", "frodo", "gandalf"], [2, 1]),
    ],
)
def test_a_reload_carries_on_rotation_and_totals(members: list[str], following: list[str], totals: list[int]) -> None:
    responder = make_responder(hobbit())
    assert [handed(responder) for _ in range(5)][-1] == "frodo"
    responder = reloaded(responder, members)
    assert responder.table.cursors["web", "round_robin"].totals() == totals
    assert [handed(responder) for _ in range(3)] == following


def test_a_reload_may_take_pools_and_policies_away_and_bring_new_ones() -> None:
    responder = make_responder(hobbit())
    handed(responder)
    other = replace(pool(names={"round.robin": "weighted"}))
    fresh = AnswerTable(hobbit(other, pool("more", members=["ns"], names={"more": "best"})))
    fresh.take_over(responder.table)
    assert fresh.cursors["web", "weighted"].totals() == [0, 0, 0]
    assert fresh.cursors["more", "best"].totals() == [0]
    gone = AnswerTable(make_farm({"hobbit": HOBBIT}))
    gone.take_over(fresh)
    assert gone.cursors == {}
    assert sum(gone.queries().values()) == 1
