"""Tests of answer tables: the answers that clients receive, and what a table stores and counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import dns.flags
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.answering import answer_table as table_module
from lbdns.answering.answer_table import OTHER_TYPE, AnswerTable
from lbdns.answering.responder import Responder
from lbdns.policies.plan import Plan
from tests.answering.asking import TCP, UDP, Line, ask, client, lines, make_query, make_responder, read, short
from tests.answering.farms import HOBBIT, MEMBERS, hobbit, make_farm, pool

SOA: Line = ("hobbit.", "SOA", 300, "ns.hobbit. hostmaster.hobbit. 7 3600 900 604800 300")
BILBO, FRODO, GANDALF = range(3)


def always(responder: Responder, member: int, policy: str = "best", pool_name: str = "web") -> Responder:
    """Make the policy select only this member from now on."""
    responder.table.cursors[pool_name, policy].set_plan(Plan((member,)))
    return responder


def alias(member: str, owner: str = "best", ttl: int = 0) -> Line:
    return (f"{owner}.hobbit.", "CNAME", ttl, f"{member}.hobbit.")


def a(owner: str, last: int, ttl: int = 0) -> Line:
    return (f"{owner}.hobbit.", "A", ttl, f"127.0.0.{last}")


def aaaa(owner: str, last: int, ttl: int = 0) -> Line:
    return (f"{owner}.hobbit.", "AAAA", ttl, f"::{last}")


def folded(section: list[dns.rrset.RRset]) -> list[Line]:
    """Return the records in lower case, because a compressed name takes over the question's letter case."""
    return [(owner.lower(), rtype, ttl, rdata.lower()) for owner, rtype, ttl, rdata in lines(section)]


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


# Several zones

CHILD = "$TTL 1h\n@ SOA ns.hobbit. hostmaster.hobbit. 1 1h 15m 1w 5m\n@ NS ns.hobbit.\nx A 127.1.0.1\ny A 127.1.0.2\n"
GRANDCHILD = CHILD.replace("127.1", "127.2")


def family() -> Responder:
    zones = {"hobbit": HOBBIT + "deleg NS ns.hobbit.\n", "sub.hobbit": CHILD, "b.a.sub.hobbit": GRANDCHILD}
    pools = (pool(), pool("low", "sub.hobbit", ("x", "y"), {"best": "round_robin", "deep.best": "best"}))
    return make_responder(make_farm(zones, pools))


def test_the_longest_zone_answers() -> None:
    responder = family()
    assert short(ask(responder, "x.sub.hobbit").answer) == [("x.sub.hobbit.", "A", "127.1.0.1")]
    assert short(ask(responder, "x.b.a.sub.hobbit").answer) == [("x.b.a.sub.hobbit.", "A", "127.2.0.1")]
    assert ask(responder, "x.sub.hobbit").flags & dns.flags.AA
    assert short(ask(responder, "best.sub.hobbit").answer)[0] == ("best.sub.hobbit.", "CNAME", "x.sub.hobbit.")
    assert short(ask(responder, "best.hobbit").answer)[0] == ("best.hobbit.", "CNAME", "bilbo.hobbit.")
    assert ask(responder, "zzz.sub.hobbit").authority[0].name == dns.name.from_text("sub.hobbit")
    assert ask(responder, "a.sub.hobbit").rcode() == dns.rcode.NXDOMAIN, "not delegated there"


def test_ds_at_a_childs_apex_is_the_parents() -> None:
    message = ask(family(), "sub.hobbit", "DS")
    assert short(message.answer) == [("sub.hobbit.", "DS", "1 8 2 " + "00" * 32)]
    message = ask(family(), "b.a.sub.hobbit", "DS")
    assert message.authority[0].name == dns.name.from_text("sub.hobbit"), "the nearest zone above"
    # Without the parent: the child says that it has none (RFC 4035 section 3.1.4.1)
    message = ask(family(), "hobbit", "DS")
    assert (message.rcode(), lines(message.authority)) == (dns.rcode.NOERROR, [SOA])


def test_a_reverse_zone() -> None:
    responder = make_responder(hobbit())
    assert short(ask(responder, "16.0.0.127.in-addr.arpa", "PTR").answer) == [
        ("16.0.0.127.in-addr.arpa.", "PTR", "bilbo.hobbit.")
    ]
    assert ask(responder, "17.0.0.127.in-addr.arpa", "PTR").rcode() == dns.rcode.NXDOMAIN


def test_a_delegation_has_no_aa_and_brings_glue() -> None:
    message = ask(make_responder(hobbit()), "host.sub.hobbit")
    assert message.flags == dns.flags.QR
    assert short(message.authority)[0] == ("sub.hobbit.", "NS", "ns.sub.hobbit.")
    assert short(message.additional) == [("ns.sub.hobbit.", "A", "127.0.0.80"), ("ns.sub.hobbit.", "AAAA", "::80")]


@pytest.mark.parametrize("name", ["sub.hobbit", "host.sub.hobbit"])
def test_only_a_client_that_sets_do_gets_the_ds_records_of_a_delegation(name: str) -> None:
    responder = make_responder(hobbit())
    for _ in range(2):  # written, and precompiled
        for payload, dnssec_ok in ((None, False), (1232, False), (1232, True)):
            query = make_query(name, payload=payload, dnssec_ok=dnssec_ok)
            message = read(responder.respond(query, client()))
            assert [rrset.rdtype for rrset in message.authority] == [dns.rdatatype.NS, dns.rdatatype.DS][
                : 1 + dnssec_ok
            ]
            assert not message.flags & dns.flags.AA


MANY_HOSTS = "".join(f"many MX 10 m{i}\nm{i} A 127.3.0.{i}\nm{i} AAAA ::3:{i}\n" for i in range(16))


@pytest.mark.parametrize(
    ("payload", "transport", "most"), [(None, UDP, 512), (512, UDP, 512), (1232, UDP, 1232), (None, TCP, 65_535)]
)
def test_addresses_of_hosts_are_in_the_answer_as_far_as_they_fit(
    payload: int | None, transport: int, most: int
) -> None:
    responder = make_responder(hobbit(more=MANY_HOSTS))
    for _ in range(3):
        wire = responder.respond(make_query("many.hobbit", "MX", payload=payload), client(), transport)
        message = read(wire)
        assert not message.flags & dns.flags.TC
        assert len(message.answer[0]) == 16
        assert isinstance(wire, bytes)
        found = short(message.additional)
        whole = [(f"m{i}.hobbit.", rtype) for i in range(16) for rtype in ("A", "AAAA")]
        assert [(owner, rtype) for owner, rtype, _ in found] == whole[: len(found)]
        assert len(wire) <= most
        assert len(found) == len(whole) or len(wire) > most - 28, "no room for another record"
        assert (len(found) == len(whole)) == (most >= 1232)


def test_a_response_with_the_addresses_of_its_hosts_is_precompiled() -> None:
    responder = make_responder(hobbit())
    messages = [read(responder.respond(make_query("hobbit", "MX"), client())) for _ in range(2)]
    entry = responder.table.entries[make_query("hobbit", "MX")[12:]]
    assert any(entry.variants)
    assert [short(message.additional) for message in messages] == [[("mail.hobbit.", "A", "127.0.0.2")]] * 2


def test_a_member_answer_has_the_addresses_of_the_members_hosts() -> None:
    responder = make_responder(hobbit(more="".join(f"{member} MX 10 mail\n" for member in MEMBERS)))
    message = ask(responder, "best.hobbit", "MX")
    assert [rrset.rdtype for rrset in message.answer] == [dns.rdatatype.CNAME, dns.rdatatype.MX]
    assert short(message.additional) == [("mail.hobbit.", "A", "127.0.0.2")]


def test_glue_that_does_not_fit_makes_a_referral_too_long() -> None:
    servers = "".join(f"cut NS n{i}.cut\nn{i}.cut A 127.3.0.{i}\nn{i}.cut AAAA ::3:{i}\n" for i in range(12))
    responder = make_responder(hobbit(more=servers))
    assert ask(responder, "x.cut.hobbit").flags & dns.flags.TC
    assert len(ask(responder, "x.cut.hobbit", transport=TCP).additional) == 24
    # The servers' addresses are no glue if they are in this zone's own data
    others = "".join(f"cut NS n{i}\nn{i} A 127.3.0.{i}\nn{i} AAAA ::3:{i}\n" for i in range(12))
    message = ask(make_responder(hobbit(more=others)), "x.cut.hobbit")
    assert not message.flags & dns.flags.TC
    assert 0 < len(message.additional) < 24


def test_yxdomain() -> None:
    # "old" becomes "new" of the same length: a target that is longer is needed
    more = "grow DNAME " + "x" * 63 + ".hobbit.\n"
    name = ".".join(["y" * 63] * 3 + ["y" * 30]) + ".grow.hobbit"
    message = ask(make_responder(hobbit(pool(), more=more)), name)
    assert message.rcode() == dns.rcode.YXDOMAIN
    assert [rtype for _, rtype, _ in short(message.answer)] == ["DNAME"]


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
