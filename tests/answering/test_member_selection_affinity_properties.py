"""Properties of address family affinity: pairs of queries get one member, and rotation counts lookups."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbdns.answering.member_selection import AFFINITY_SLOTS
from lbdns.answering.plane import PYTHON_PLANE, NativePlane, Plane
from lbdns.answering.responder import Responder
from lbdns.policies.plan import Plan
from tests.answering.asking import TCP, UDP
from tests.answering.asking_types import ONE, OTHER, SPAN, ask, new_responder, on_both
from tests.answering.farms import MEMBERS
from tests.needs import needs

HOSTS: Final = ("192.0.2.1", "192.0.2.2", OTHER)
PAIR: Final = ("A", "AAAA")
#: Seconds: long enough to forget everything, and sums of the others that are not
PAUSES: Final = (0.0, 20e-6, 300e-6, 5e-3, 0.02, 2 * SPAN)

several = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


class Query(NamedTuple):
    name: str
    host: str
    rtype: str
    port: int  # 0 for a new one
    transport: int
    pause: float  # seconds before it


class NewPlan(NamedTuple):
    order: Sequence[int]
    others: Sequence[int]  # more usable members


queries = st.builds(
    Query, st.sampled_from(("best.hobbit", "BEST.hobbit", "www.hobbit", "weighted.hobbit", "round.robin.hobbit")),
    st.sampled_from(HOSTS), st.sampled_from((*PAIR, *PAIR, "HTTPS", "TXT")), st.sampled_from((0, 0, 5001, 5002)),
    st.sampled_from((UDP, UDP, TCP)), st.sampled_from((*PAUSES[:4], *PAUSES, 1.75)),
)  # fmt: skip
some = st.lists(st.integers(0, 2), min_size=1, max_size=4)


def slots_differ(responder: Responder) -> bool:
    """Return whether all clients use different slots of all cursors, as they nearly always do."""
    numbers = [cursor.number for cursor in responder.table.cursors.values()]
    mark = responder.selector.affinity.mark
    marks = {mark(host, number) % AFFINITY_SLOTS for host in HOSTS for number in numbers}
    return len(marks) == len(HOSTS) * len(numbers)


def responders(planes: Iterable[Plane]) -> list[Responder]:
    return [next(one for _ in itertools.count() if slots_differ(one := new_responder(plane))) for plane in planes]


@needs(native=True)
@several
@given(st.lists(st.one_of(queries, queries, queries, queries, st.builds(NewPlan, some, some)), max_size=60))
def test_both_planes_decide_alike(steps: list[Query | NewPlan]) -> None:
    both = responders([PYTHON_PLANE, NativePlane()])
    ports = itertools.count(20_000)
    for step in steps:
        if isinstance(step, NewPlan):
            for responder in both:
                responder.table.cursors["web", "best"].set_plan(Plan(tuple(step.order)), (*step.order, *step.others))
            continue
        port = step.port or next(ports)
        found = []
        for responder in both:
            responder.tick(responder.now + step.pause, 0.0)
            found.append(ask(responder, step.host, step.rtype, step.name, step.transport, port))
        assert found[0] == found[1]
    assert both[0].counters() == both[1].counters()
    for key, cursor in both[0].table.cursors.items():
        assert cursor.totals() == both[1].table.cursors[key].totals()


class Lookup(NamedTuple):
    """A client's queries for one connection, or a lone query."""

    host: str
    rtypes: Sequence[str]
    pause: float  # seconds before the first query ...
    gap: float  # ... and before each other one
    inside: str = ""  # the type of a lone query between the first and the second one


def lookups(
    types: Iterable[Sequence[str]], pauses: Iterable[float], gaps: Iterable[float], inside: Sequence[str] = ()
) -> st.SearchStrategy[list[Lookup]]:
    return st.lists(
        st.builds(
            Lookup, st.sampled_from(HOSTS), st.sampled_from(list(types)), st.sampled_from(list(pauses)),
            st.sampled_from(list(gaps)), st.sampled_from(("", *inside)),
        ),
        max_size=40,
    )  # fmt: skip


LONE: Final = (("A",), ("AAAA",), ("HTTPS",))
ORDERS_OF_TWO: Final = tuple(itertools.permutations(PAIR))
ORDERS_OF_THREE: Final = tuple(itertools.permutations((*PAIR, "HTTPS")))
ORDERS: Final = ORDERS_OF_TWO + ORDERS_OF_THREE
SHORT_GAPS: Final = (0.0, 20e-6, 200e-6)
LONGER_PAUSES: Final = (700e-6, 5e-3, 0.3, 2 * SPAN)


@on_both
@several
@given(
    st.one_of(
        lookups(LONE + ORDERS, PAUSES, PAUSES[:4]),
        # A lone query may precede a lookup or come between its queries, but not both
        lookups(ORDERS, PAUSES[-1:], PAUSES[:4], inside=("A", "AAAA", "HTTPS")),
    )
)
def test_queries_from_one_port_get_one_member_whatever_came_before(plane: Plane, steps: list[Lookup]) -> None:
    (responder,) = responders([plane])
    ports = itertools.count(20_000)
    for step in steps:
        port = next(ports)
        found = set()
        for number, rtype in enumerate(step.rtypes):
            responder.tick(responder.now + (step.gap if number else step.pause), 0.0)
            found.add(ask(responder, step.host, rtype, port=port))
            if step.inside and not number:
                ask(responder, step.host, step.inside, port=next(ports))
        assert len(found) == 1


@on_both
@several
@given(st.one_of([lookups(orders, LONGER_PAUSES, SHORT_GAPS) for orders in (ORDERS_OF_TWO, ORDERS_OF_THREE)]))
def test_rotation_is_strict_over_lookups_from_any_ports(plane: Plane, steps: list[Lookup]) -> None:
    (responder,) = responders([plane])
    for turn, step in enumerate(steps):
        for number, rtype in enumerate(step.rtypes):
            responder.tick(responder.now + (step.gap if number else step.pause), 0.0)
            assert ask(responder, step.host, rtype, "round.robin.hobbit") == MEMBERS[turn % len(MEMBERS)]
    assert sum(responder.table.cursors["web", "round_robin"].totals()) == len(steps)


@on_both
@several
@given(st.lists(st.integers(0, len(HOSTS) - 1), max_size=40), st.sampled_from(ORDERS))
def test_lookups_of_several_clients_may_overlap(plane: Plane, turns: list[int], order: Sequence[str]) -> None:
    (responder,) = responders([plane])
    waiting: dict[int, list[str]] = {}
    member: dict[int, str] = {}
    for turn in turns:
        responder.tick(responder.now + 30e-6, 0.0)
        if not waiting.get(turn):
            waiting[turn] = list(order)
            member.pop(turn, None)
        found = ask(responder, HOSTS[turn], waiting[turn].pop(0))
        assert member.setdefault(turn, found) == found


@on_both
@several
@given(lookups((*LONE, PAIR, PAIR, (*PAIR, "HTTPS")), (0.06, 0.3, 1.0, 2 * SPAN), (0.0, 20e-6, 1e-3)))
def test_pairs_from_any_ports_get_one_member_whatever_came_before(plane: Plane, steps: list[Lookup]) -> None:
    (responder,) = responders([plane])
    for step in steps:
        found = set()
        for number, rtype in enumerate(step.rtypes):
            responder.tick(responder.now + (step.gap if number else step.pause), 0.0)
            found.add(ask(responder, step.host, rtype))
        assert len(found) == 1


before = st.lists(
    st.tuples(  # type, pause, and port (0 for a new one)
        st.sampled_from((*PAIR, *PAIR, "HTTPS")), st.sampled_from((*PAUSES[:4], *PAUSES)),
        st.sampled_from((0, 0, 5001, 5002)),
    ),
    max_size=40,
)  # fmt: skip
#: Seconds between the queries of a lookup, and before a lookup
PACES: Final = ((20e-6, 400e-6), (20e-6, 5e-3), (200e-6, 4e-3), (1e-3, 0.02))
RECOVERY: Final = 12  # lookups


@on_both
@several
@given(
    st.integers(0, 20), st.sampled_from(ORDERS_OF_TWO), before, st.sampled_from(ORDERS_OF_TWO), st.sampled_from(PACES)
)
def test_pairs_find_each_other_again_whatever_came_before(
    plane: Plane,
    number: int,  # of lookups in the client's earlier order
    earlier: Sequence[str],
    steps: list[tuple[str, float, int]],
    order: Sequence[str],
    pace: tuple[float, float],
) -> None:
    (responder,) = responders([plane])
    gap, pause = pace

    def is_one_member(rtypes: Sequence[str]) -> bool:
        found = set()
        for rtype, wait in zip(rtypes, (pause, gap), strict=True):
            responder.tick(responder.now + wait, 0.0)
            found.add(ask(responder, ONE, rtype))
        return len(found) == 1

    for _ in range(number):
        is_one_member(earlier)
    for rtype, wait, port in steps:
        responder.tick(responder.now + wait, 0.0)
        ask(responder, ONE, rtype, port=port)
    found = [is_one_member(order) for _ in range(2 * RECOVERY)]
    assert all(found[RECOVERY:]), found


@on_both
@pytest.mark.parametrize("order", ORDERS_OF_TWO)
@pytest.mark.parametrize("ports", [1, 2, 4, 16, 64])
def test_resolvers_with_few_ports_are_not_mistaken_for_libraries(
    plane: Plane, ports: int, order: Sequence[str]
) -> None:
    chance = Random(ports)
    (responder,) = responders([plane])
    separated = 0
    for _ in range(300):
        found = set()
        for rtype, pause in zip(order, (chance.uniform(1e-3, 5e-3), 50e-6), strict=True):
            responder.tick(responder.now + pause, 0.0)
            found.add(ask(responder, ONE, rtype, port=5000 + chance.randrange(ports)))
        separated += len(found) > 1
    assert separated <= 3, "in the first lookups, before the usual first type is known"
