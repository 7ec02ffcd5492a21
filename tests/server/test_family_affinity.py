"""Tests of address family affinity over real sockets: the native plane and the slow path share the affinity state."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import dns.rdatatype
import pytest

from lbdns.policies.plan import Plan
from tests.answering.asking import make_query, read
from tests.answering.farms import hobbit, pool
from tests.answering.test_plane import NOW, WALL, Asked, both
from tests.needs import needs

TYPES: Final = ("A", "AAAA", "HTTPS")
#: Usual ways of asking, which the native extension answers, and ways that Python alone does
USUAL: Final[list[dict[str, Any]]] = [{}, {"payload": 1232}]
LONG: Final[list[dict[str, Any]]] = [{"payload": 1231}]


def member(answer: bytes) -> str:
    alias = read(answer).answer[0]
    assert alias.rdtype == dns.rdatatype.CNAME
    return str(alias[0].target).partition(".")[0]


def compiled(asked: Asked) -> None:
    """Have the answers to all questions in all usual query shapes precompiled, then let the affinity entries expire."""
    for way in USUAL:
        asked.ask(*(make_query("best.hobbit", rtype, **way) for rtype in TYPES))
    asked.responder.tick(NOW + 100, WALL)
    asked.responder.table.cursors["web", "best"].set_plan(Plan((0, 1, 2)))


@contextmanager
def clients(asked: Asked, hosts: Sequence[str]) -> Iterator[dict[str, socket.socket]]:
    """Create more clients of the same server, each with a different address or port."""
    with ExitStack() as stack:
        made = {host: stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for host in hosts}
        for host, sock in made.items():
            sock.bind((host, 0))
            sock.connect(("127.0.0.1", asked.server.endpoint.port))
            sock.setblocking(False)
        yield made


@needs(native=True)
@pytest.mark.parametrize("ways", [USUAL, USUAL + LONG, LONG], ids=["short", "both", "long"])
def test_both_ways_have_one_memory(ways: list[dict[str, Any]]) -> None:
    with both(hobbit()) as pair:
        for asked in pair:
            compiled(asked)
            before = asked.responder.counters()["coherent"]
            number = 0
            for turn in range(6):
                found: list[str] = []
                for place, rtype in enumerate(TYPES):
                    number += 1
                    query = make_query("best.hobbit", rtype, ident=number, **ways[(turn + place) % len(ways)])
                    found += map(member, asked.ask(query))
                assert found == [("bilbo", "frodo", "gandalf")[turn % 3]] * 3
            assert asked.responder.counters()["coherent"] - before == 12


@needs(native=True)
def test_both_planes_say_the_same_to_any_sequence() -> None:
    chance = random.Random(20261121)
    hosts = [f"127.0.3.{number}" for number in range(1, 5)]
    with both(hobbit(pool(coherence=1.5))) as pair, ExitStack() as stack:
        sockets = [stack.enter_context(clients(asked, hosts)) for asked in pair]
        now = NOW
        for number in range(1500):
            host, rtype = chance.choice(hosts), chance.choice((*TYPES, "TXT"))
            name = chance.choice(("best.hobbit", "BEST.hobbit", "www.hobbit", "weighted.hobbit", "round.robin.hobbit"))
            query = make_query(name, rtype, ident=number, **chance.choice(USUAL + LONG))
            now += chance.choice((0.0, 20e-6, 20e-6, 300e-6, 5e-3, 0.1, 1.0))
            order = chance.choices(range(3), k=3) if chance.random() < 0.05 else None
            answers = []
            for asked, own in zip(pair, sockets, strict=True):
                asked.client = own[host]
                asked.responder.tick(now, WALL)
                if order:
                    asked.responder.table.cursors["web", "best"].set_plan(Plan(tuple(order)), (*order, 1))
                answers.append(asked.ask(query))
            assert answers[0] == answers[1], number
        counters = [asked.responder.counters() for asked in pair]
        assert counters[0] == counters[1]
        assert counters[0]["coherent"] > 100
        for key, handout in pair[0].responder.table.cursors.items():
            assert pair[1].responder.table.cursors[key].totals() == handout.totals()


@needs(native=True)
def test_a_drained_member_is_not_given_natively_either() -> None:
    with both(hobbit()) as pair:
        for asked in pair:
            compiled(asked)
            handout = asked.responder.table.cursors["web", "best"]
            assert [member(one) for one in asked.ask(make_query("best.hobbit", "A", ident=1))] == ["bilbo"]
            handout.set_plan(Plan((2,)), (1, 2))
            for ident, rtype in enumerate(("AAAA", "HTTPS"), 2):
                assert [member(one) for one in asked.ask(make_query("best.hobbit", rtype, ident=ident))] == ["gandalf"]
            assert handout.selections().counts == (0, 0, 1)


@needs(native=True)
def test_off_is_off_natively_too() -> None:
    with both(hobbit(pool(coherence=0))) as pair:
        for asked in pair:
            compiled(asked)
            queries = [make_query("best.hobbit", rtype, ident=ident) for ident, rtype in enumerate(TYPES, 1)]
            assert [member(one) for query in queries for one in asked.ask(query)] == ["bilbo", "frodo", "gandalf"]
            assert asked.responder.counters()["coherent"] == 0
