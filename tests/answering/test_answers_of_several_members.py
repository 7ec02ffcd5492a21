"""Tests of answers that name several members, from the configuration to the bytes, on both planes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

import dns.edns
import dns.flags
import pytest

from lbdns.answering.responder import Responder
from lbdns.config import CookiesConfig
from lbdns.model.farm import Farm
from lbdns.policies.plan import Plan
from tests.answering.asking import TCP, UDP, client, make_query, read, short
from tests.answering.configured import NOW, WALL, at_work, configured
from tests.answering.farms import MEMBERS, hobbit, make_farm, pool

pytestmark = pytest.mark.usefixtures("both_planes")

BILBO, FRODO, GANDALF = ["127.0.0.16"], ["127.0.0.17"], ["127.0.0.18", "127.0.0.19"]
SIXTEEN: Final = [f"m{number}" for number in range(16)]


def several(answers: int = 3, **more: Any) -> Farm:
    return hobbit(pool(answer="address", answers=answers, **more))


def asked(responder: Responder, rtype: str = "A", name: str = "best.hobbit", transport: int = UDP) -> Sequence[str]:
    """Return the addresses in the answer to a new client."""
    return rdata_of(responder.respond(make_query(name, rtype), client(), transport))


def rdata_of(wire: Any) -> Sequence[str]:
    return [rdata for _, _, rdata in short(read(wire).answer)]


@pytest.mark.parametrize(
    ("answers", "lists"),
    [
        (1, [BILBO, FRODO, GANDALF]),
        (2, [BILBO + FRODO, FRODO + GANDALF, GANDALF + BILBO]),
        (3, [BILBO + FRODO + GANDALF, FRODO + GANDALF + BILBO, GANDALF + BILBO + FRODO]),
        (16, [BILBO + FRODO + GANDALF, FRODO + GANDALF + BILBO, GANDALF + BILBO + FRODO]),
    ],
)
@pytest.mark.parametrize("transport", [UDP, TCP])
def test_a_rotation_rotates_whole_lists(answers: int, lists: list[list[str]], transport: int) -> None:
    responder = at_work(several(answers, coherence=0))
    for _ in range(2):  # the second time on the fast path
        assert [asked(responder, "A", "round.robin.hobbit", transport) for _ in MEMBERS] == lists
    assert responder.table.cursors["web", "round_robin"].totals() == [2, 2, 2], "only the first one counts"


@pytest.mark.parametrize(
    ("name", "rtype"),
    [*product(("best.hobbit", "BeSt.hobbit", "www.hobbit", "far.hobbit"), ("A", "AAAA")), ("best.hobbit", "ANY")],
)
@pytest.mark.parametrize(
    "way", [{}, {"payload": 1232}, {"payload": 4096, "dnssec_ok": True, "options": [
        dns.edns.GenericOption("COOKIE", b"a client")]}],
)  # fmt: skip
def test_the_fast_path_sends_the_bytes_of_the_slow_path(name: str, rtype: str, way: dict[str, Any]) -> None:
    query = make_query(name, rtype, **way)
    fast, slow = at_work(several(coherence=0)), at_work(several(coherence=0))
    responses = []
    for turn in range(9):
        peer = client()
        responses.append(fast.respond(query, peer))
        assert responses[-1] == slow.respond_slowly(query, peer)
        if turn == 4:
            for responder in (fast, slow):
                responder.table.cursors["web", "best"].set_plan(Plan((2,), ranking=(2, 1)))
    (entry,) = fast.table.entries.values()
    assert sum(map(bool, entry.variants)) == 1, "all but the first took the fast path"
    assert len(set(responses)) >= 3


def test_one_record_set_has_one_ttl() -> None:
    zone = "@ 60 SOA ns h 1 1 1 1 1\n@ 60 NS ns\nns 60 A 127.0.0.1\na 60 A 127.0.1.1\nb 40 A 127.0.1.2\nb 30 AAAA ::2\n"
    for ttl, expected in ((300, 30), (5, 5)):
        farm = make_farm({"hobbit": zone}, [pool(members=["a", "b"], answer="address", answers=2, ttl=ttl)])
        response = read(at_work(farm).respond(make_query("best.hobbit"), client()))
        assert [(len(rrset), rrset.ttl) for rrset in response.answer] == [(2, expected)]


def test_an_address_that_two_members_share_is_named_once() -> None:
    farm = hobbit(pool(members=["bilbo", "twin", "frodo"], answer="address", answers=3), more="twin A 127.0.0.16\n")
    responder = at_work(farm)
    for _ in range(2):
        assert asked(responder, "A", "round.robin.hobbit") == BILBO + FRODO
        assert asked(responder, "A", "round.robin.hobbit") == BILBO + FRODO
        assert asked(responder, "A", "round.robin.hobbit") == FRODO + BILBO


def test_both_address_families_name_the_same_members_in_the_same_order() -> None:
    responder = at_work(several())
    for _ in range(2):
        for first in MEMBERS:
            host = client()[0]
            a = rdata_of(responder.respond(make_query("best.hobbit", "A"), (host, 1024)))
            six = read(responder.respond(make_query("best.hobbit", "AAAA"), (host, 1025)))
            expected = {"bilbo": [], "frodo": ["::17", "::18", "::19"], "gandalf": ["::18", "::19", "::17"]}[first]
            assert [rdata for _, _, rdata in short(six.answer)] == expected
            assert len(a) == 4
            # Bilbo has no such address: the client shall use his other one, not another member's
            assert bool(six.authority) == (first == "bilbo")
            responder.tick(responder.now + 10.0, WALL)
    assert responder.table.cursors["web", "best"].totals() == [2, 2, 2]


def test_a_retransmission_gets_the_same_list() -> None:
    responder = at_work(several(2))
    query, peer = make_query("best.hobbit"), client()
    cursor = responder.table.cursors["web", "best"]
    first = responder.respond(query, peer)
    cursor.set_plan(Plan((2,), ranking=(2, 1, 0)), (0, 1, 2))
    assert responder.respond(query, peer) == first
    assert responder.respond_slowly(query, peer) == first
    assert responder.counters()["repeated"] == 2
    cursor.set_plan(Plan((0, 2)))  # frodo has become unusable
    assert rdata_of(responder.respond(query, peer)) == rdata_of(responder.respond_slowly(query, peer)) == BILBO
    cursor.set_plan(Plan((2, 1)))  # and now bilbo
    assert rdata_of(responder.respond(query, peer)) == GANDALF + FRODO
    responder.tick(NOW + 6.5, WALL)
    assert rdata_of(responder.respond(query, peer)) == FRODO + GANDALF


def test_any_names_one_member() -> None:
    responder = at_work(several())
    assert [asked(responder, "ANY") for _ in range(4)] == [BILBO, FRODO, GANDALF, BILBO]


@pytest.mark.parametrize("rtype", ["CNAME", "MX", "HTTPS"])
def test_other_types_name_nobody(rtype: str) -> None:
    responder = at_work(several())
    assert asked(responder, rtype) == []
    assert responder.table.cursors["web", "best"].totals() == [0, 0, 0]


def test_the_apex_always_has_addresses() -> None:
    responder = at_work(hobbit(pool(names={"@": "round_robin"}, answers=2)))
    assert [asked(responder, "A", "hobbit") for _ in range(2)] == [BILBO + FRODO, FRODO + GANDALF]


# Length limits


def sixteen(addresses: int = 1, rtype: str = "A", name: str = "best", **more: Any) -> Farm:
    """Return a farm with a pool of sixteen members with this many addresses each."""
    prefix = "127.2.{0}.{1}" if rtype == "A" else "2001:db8:1:2:3:4:{0}:{1}"
    records = [
        f"{member} {rtype} {prefix.format(number, address + 1)}\n"
        for number, member in enumerate(SIXTEEN)
        for address in range(addresses)
    ]
    farm = hobbit(
        pool(members=SIXTEEN, names={name: "round_robin"}, answer="address", answers=16), more="".join(records)
    )
    return configured(farm, **more)


@pytest.mark.parametrize(("rtype", "name"), [("A", "a" * 60 + "." + "b" * 60), ("AAAA", "best")])
def test_sixteen_addresses_fit_everywhere(rtype: str, name: str) -> None:
    responder = at_work(sixteen(1, rtype, name))
    for _ in range(2):
        wire = responder.respond(make_query(f"{name}.hobbit", rtype), client())
        assert isinstance(wire, bytes)
        assert len(wire) <= 512
        assert len(rdata_of(wire)) == 16


@pytest.mark.parametrize("rtype", ["A", "AAAA"])
@pytest.mark.parametrize("addresses", [3, 4])
@pytest.mark.parametrize("payload", [None, 512, 700, 1232])
def test_a_list_that_is_too_long_ends_early_and_is_not_truncated(
    rtype: str, addresses: int, payload: int | None
) -> None:
    responder = at_work(sixteen(addresses, rtype), ())
    size = 16 if rtype == "A" else 28
    for _ in range(3):
        query = make_query("best.hobbit", rtype, payload=payload)
        wire = responder.respond(query, client())
        assert isinstance(wire, bytes)
        assert not read(wire).flags & dns.flags.TC
        room = (payload or 512) - len(query)
        assert len(rdata_of(wire)) == min(16, room // (size * addresses)) * addresses
        assert len(rdata_of(responder.respond(query, client(), TCP))) == 16 * addresses
    assert responder.counters()["too_long_cut"] == 0


def test_a_client_without_a_cookie_gets_a_short_list() -> None:
    responder = at_work(sixteen(4, "AAAA", cookies=CookiesConfig(udp_without=512)))
    wire = responder.respond(make_query("best.hobbit", "AAAA", payload=1232), client())
    assert isinstance(wire, bytes)
    assert len(wire) <= 512
    assert len(rdata_of(wire)) == 16, "four members with four addresses each"


def test_the_first_member_is_never_omitted() -> None:
    responder = at_work(sixteen(20, "AAAA"))
    response = read(responder.respond(make_query("best.hobbit", "AAAA"), client()))
    assert response.flags & dns.flags.TC
    assert responder.counters()["too_long_cut"] == 1
    assert responder.table.cursors["web", "round_robin"].totals() == [0] * 16
    assert len(asked(responder, "AAAA", "best.hobbit", TCP)) == 320
