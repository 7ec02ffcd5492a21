"""Tests of the answers that clients receive: pool names, aliases, address form, and names outside every zone."""

from __future__ import annotations

from itertools import product

import dns.flags
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.answering.answer_lines import BILBO, FRODO, GANDALF, SOA, a, aaaa, alias, always, folded
from tests.answering.asking import TCP, UDP, Line, ask, lines, make_responder, short
from tests.answering.farms import MEMBERS, hobbit, pool


@pytest.mark.parametrize(
    ("member", "rtype", "answer", "authority"),
    [
        (BILBO, "A", [alias("bilbo"), a("bilbo", 16)], []),
        (BILBO, "AAAA", [alias("bilbo")], [SOA]),
        (FRODO, "AAAA", [alias("frodo"), aaaa("frodo", 17)], []),
        (GANDALF, "A", [alias("gandalf"), a("gandalf", 18), a("gandalf", 19)], []),
        (GANDALF, "AAAA", [alias("gandalf"), aaaa("gandalf", 18), aaaa("gandalf", 19)], []),
        (GANDALF, "TXT", [alias("gandalf"), ("gandalf.hobbit.", "TXT", 0, '"you shall not pass"')], []),
        (BILBO, "CNAME", [alias("bilbo")], []),
        (BILBO, "ANY", [alias("bilbo")], []),
        (BILBO, "MX", [alias("bilbo")], [SOA]),
        (BILBO, "HTTPS", [alias("bilbo")], [SOA]),
        (BILBO, "TYPE65400", [alias("bilbo")], [SOA]),
        (BILBO, "NS", [alias("bilbo")], [SOA]),
    ],
)
@pytest.mark.parametrize("transport", [UDP, TCP])
@pytest.mark.parametrize("name", ["best.hobbit", "BeSt.HoBBit"])
def test_a_pools_name_is_an_alias_of_the_member(
    member: int, rtype: str, answer: list[Line], authority: list[Line], transport: int, name: str
) -> None:
    responder = always(make_responder(hobbit()), member)
    for _ in range(2):  # the long way, then the short one
        message = ask(responder, name, rtype, transport)
        assert message.rcode() == dns.rcode.NOERROR
        assert message.flags == dns.flags.QR | dns.flags.AA
        assert str(message.question[0].name) == name + "."
        assert folded(message.answer) == answer
        assert folded(message.authority) == authority
        assert not message.additional


@pytest.mark.parametrize(("ttl", "member_ttl"), [(0, 0), (30, 30), (86400, 3600)])
def test_ttl_of_the_pool_but_no_longer_than_the_zone_says(ttl: int, member_ttl: int) -> None:
    responder = always(make_responder(hobbit(pool(ttl=ttl))), BILBO)
    assert lines(ask(responder, "best.hobbit").answer) == [alias("bilbo", ttl=ttl), a("bilbo", 16, member_ttl)]


@pytest.mark.parametrize("name", ["robin.hobbit", "round.hobbit", "nobody.hobbit"])
def test_the_names_between(name: str) -> None:
    message = ask(make_responder(hobbit(pool(names={"round.robin": "round_robin"}))), name)
    assert message.rcode() == (dns.rcode.NOERROR if name == "robin.hobbit" else dns.rcode.NXDOMAIN)
    assert message.flags & dns.flags.AA
    assert (lines(message.answer), lines(message.authority)) == ([], [SOA])


@pytest.mark.parametrize("name", ["example.org", "hobbitx", "hobbi", ".", "xhobbit", "arpa", "1.127.in-addr.arpa"])
@pytest.mark.parametrize("rtype", ["A", "DS", "SOA"])
def test_outside_every_zone_is_refused(name: str, rtype: str) -> None:
    message = ask(make_responder(hobbit()), name, rtype)
    assert message.rcode() == dns.rcode.REFUSED
    assert not message.flags & dns.flags.AA
    assert message.answer == message.authority == message.additional == []


QUESTIONS = list(product(["A", "AAAA", "CNAME", "ANY", "MX", "HTTPS", "TYPE65400"], [UDP, TCP]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(QUESTIONS), max_size=40))
def test_rotation_is_strict_over_any_mix_of_types_and_transports(questions: list[tuple[str, int]]) -> None:
    responder = make_responder(hobbit(pool(coherence=0)))
    handed = [
        lines(ask(responder, "round.robin.hobbit", rtype, transport).answer)[0][3] for rtype, transport in questions
    ]
    assert handed == [f"{MEMBERS[i % 3]}.hobbit." for i in range(len(questions))]


def test_the_names_of_a_policy_share_their_rotation_and_policies_do_not() -> None:
    names = {"rr": "round_robin", "turn": "round_robin", "best": "best"}
    responder = make_responder(hobbit(pool(names=names)))
    owners = ["rr", "turn", "best", "rr", "turn"]
    handed = [short(ask(responder, f"{owner}.hobbit").answer)[0][2].split(".")[0] for owner in owners]
    assert handed == ["bilbo", "frodo", "bilbo", "gandalf", "bilbo"]


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("www", [("www.hobbit.", "CNAME", 7200, "best.hobbit.")]),
        ("far", [("far.hobbit.", "CNAME", 3600, "www.hobbit."), ("www.hobbit.", "CNAME", 7200, "best.hobbit.")]),
        (
            "best.pools",
            [("pools.hobbit.", "DNAME", 3600, "hobbit."), ("best.pools.hobbit.", "CNAME", 3600, "best.hobbit.")],
        ),
    ],
)
def test_an_alias_in_the_zone_leads_to_the_pool(name: str, before: list[Line]) -> None:
    responder = make_responder(hobbit())
    for member, last in [("bilbo", 16), ("frodo", 17)]:
        message = ask(responder, f"{name}.hobbit")
        assert lines(message.answer) == [*before, alias(member), a(member, last)]
        assert message.flags & dns.flags.AA


def test_a_pool_of_one() -> None:
    responder = make_responder(hobbit(pool(members=["frodo"])))
    for _ in range(3):
        assert lines(ask(responder, "round.robin.hobbit").answer) == [alias("frodo", "round.robin"), a("frodo", 17)]


# Addresses at the name itself


@pytest.mark.parametrize("transport", [UDP, TCP])
def test_address_form(transport: int) -> None:
    responder = make_responder(hobbit(pool(answer="address", ttl=5, coherence=0)))
    asked = [ask(responder, "best.hobbit", rtype, transport) for rtype in ("A", "AAAA", "A", "AAAA", "ANY")]
    assert [lines(message.answer) for message in asked] == [
        [a("best", 16, 5)],
        [aaaa("best", 17, 5)],
        [a("best", 18, 5), a("best", 19, 5)],
        [],  # bilbo's turn, who has none
        [a("best", 17, 5)],
    ]
    assert [lines(message.authority) for message in asked] == [[], [], [], [SOA], []]


def test_address_form_says_nothing_of_a_member_for_other_types() -> None:
    responder = make_responder(hobbit(pool(answer="address"), more='best TXT "a word"\n'))
    assert lines(ask(responder, "best.hobbit", "TXT").answer) == [("best.hobbit.", "TXT", 3600, '"a word"')]
    for rtype in ("CNAME", "MX", "HTTPS"):
        message = ask(responder, "best.hobbit", rtype)
        assert (lines(message.answer), lines(message.authority)) == ([], [SOA])
    assert responder.table.cursors["web", "best"].totals() == [0, 0, 0]


def test_address_form_without_any_address_of_a_family_hands_out_nobody() -> None:
    responder = make_responder(hobbit(pool(members=["bilbo"], answer="address")))
    assert lines(ask(responder, "best.hobbit", "AAAA").authority) == [SOA]
    assert responder.table.cursors["web", "best"].totals() == [0]


def test_an_alias_to_address_form() -> None:
    responder = make_responder(hobbit(pool(answer="address")))
    message = ask(responder, "www.hobbit")
    assert lines(message.answer) == [("www.hobbit.", "CNAME", 7200, "best.hobbit."), a("best", 16)]
    message = ask(responder, "www.hobbit", "MX")
    assert lines(message.answer) == [("www.hobbit.", "CNAME", 7200, "best.hobbit.")]
    assert lines(message.authority) == [SOA]


def test_a_pool_at_the_apex() -> None:
    responder = make_responder(hobbit(pool(names={"@": "round_robin"})))
    apex: list[Line] = [("hobbit.", "A", 0, f"127.0.0.{last}") for last in (16, 17, 18, 19)]
    assert lines(ask(responder, "hobbit").answer) == apex[:1]
    assert lines(ask(responder, "hobbit").answer) == apex[1:2]
    assert lines(ask(responder, "hobbit", "MX").answer) == [("hobbit.", "MX", 3600, "10 mail.hobbit.")]
    assert short(ask(responder, "hobbit", "NS").answer) == [("hobbit.", "NS", "ns.hobbit.")]
    assert short(ask(responder, "hobbit", "SOA").answer)[0][1] == "SOA"
    assert lines(ask(responder, "hobbit", "CNAME").authority) == [SOA]
    assert lines(ask(responder, "hobbit").answer) == apex[2:], "the other types were nobody's turn"
    assert lines(ask(responder, "hobbit", "ANY").answer) == apex[:1]
