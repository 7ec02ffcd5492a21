"""Tests of zone lookup: examples for every case in the RFCs, and a comparison with a second implementation."""

from __future__ import annotations

from pathlib import Path

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lbdns.answering.dns_constants import Rcode
from lbdns.answering.message_writer import AnswerSections, Record
from lbdns.answering.zone_lookup import MAX_CHAIN, MAX_TARGETS, PoolMatch, ZoneIndex, look_up
from lbdns.zones import names
from lbdns.zones.master_file import parse_zone
from tests.answering.farms import HOBBIT
from tests.answering.zone_model import Line, ModelZone

SOA = "ns.hobbit. hostmaster.hobbit. 7 3600 900 604800 300"
HOBBIT_INDEX = ZoneIndex(parse_zone("hobbit", HOBBIT, Path("hobbit.zone")), [names.from_text("best.hobbit")])


def line(record: Record) -> str:
    rtype = dns.rdatatype.RdataType.make(record.rtype)
    rdata = dns.rdata.from_wire(dns.rdataclass.IN, rtype, record.rdata, 0, len(record.rdata))
    return f"{names.to_text(record.owner)}. {record.ttl} {dns.rdatatype.to_text(rtype)} {rdata.to_text()}"


def look(qname: str, qtype: str, index: ZoneIndex = HOBBIT_INDEX) -> AnswerSections:
    found = look_up(index, names.from_text(qname), dns.rdatatype.from_text(qtype))
    assert isinstance(found, AnswerSections)
    return found


POSITIVE = {
    ("ns.hobbit", "A"): ["ns.hobbit. 3600 A 127.0.0.1"],
    ("gandalf.hobbit", "AAAA"): ["gandalf.hobbit. 3600 AAAA ::18", "gandalf.hobbit. 3600 AAAA ::19"],
    ("gandalf.hobbit", "TXT"): ['gandalf.hobbit. 60 TXT "you shall not pass"'],
    ("hobbit", "SOA"): [f"hobbit. 3600 SOA {SOA}"],
    ("hobbit", "NS"): ["hobbit. 3600 NS ns.hobbit."],
    ("odd.hobbit", "TYPE65280"): ["odd.hobbit. 3600 TYPE65280 \\# 2 abcd"],
    ("srv.hobbit", "SRV"): ["srv.hobbit. 3600 SRV 0 0 80 bilbo.hobbit."],
    # Wildcards (RFC 4592): any depth, not where something nearer exists
    ("x.wild.hobbit", "A"): ["x.wild.hobbit. 300 A 127.0.0.77"],
    ("x.y.z.wild.hobbit", "TXT"): ['x.y.z.wild.hobbit. 300 TXT "any"'],
    ("*.wild.hobbit", "A"): ["*.wild.hobbit. 300 A 127.0.0.77"],
    ("b.a.wild.hobbit", "A"): ["b.a.wild.hobbit. 3600 A 127.0.0.78"],
    # ... and as the beginning of a chain
    ("x.alias.hobbit", "A"): ["x.alias.hobbit. 3600 CNAME bilbo.hobbit.", "bilbo.hobbit. 3600 A 127.0.0.16"],
    # Aliases
    ("www.hobbit", "CNAME"): ["www.hobbit. 7200 CNAME best.hobbit."],
    ("out.hobbit", "A"): ["out.hobbit. 3600 CNAME www.example.org."],
    ("self.hobbit", "A"): ["self.hobbit. 3600 CNAME self.hobbit."],
    ("loop1.hobbit", "A"): ["loop1.hobbit. 3600 CNAME loop2.hobbit.", "loop2.hobbit. 3600 CNAME loop1.hobbit."],
    ("a.old.hobbit", "A"): [
        "old.hobbit. 3600 DNAME new.hobbit.",
        "a.old.hobbit. 3600 CNAME a.new.hobbit.",
        "a.new.hobbit. 3600 A 127.0.0.81",
    ],
    ("old.hobbit", "DNAME"): ["old.hobbit. 3600 DNAME new.hobbit."],
    # The synthesized CNAME is the answer to a query for a CNAME: it is not followed (RFC 6672 section 3.2)
    ("a.old.hobbit", "CNAME"): ["old.hobbit. 3600 DNAME new.hobbit.", "a.old.hobbit. 3600 CNAME a.new.hobbit."],
    ("b.old.hobbit", "CNAME"): ["old.hobbit. 3600 DNAME new.hobbit.", "b.old.hobbit. 3600 CNAME b.new.hobbit."],
    ("best.pools.hobbit", "CNAME"): ["pools.hobbit. 3600 DNAME hobbit.", "best.pools.hobbit. 3600 CNAME best.hobbit."],
    # The parent's side of a cut (RFC 4035 section 3.1.4.1)
    ("sub.hobbit", "DS"): ["sub.hobbit. 3600 DS 1 8 2 " + "00" * 32],
    # One RRset for ANY (RFC 8482)
    ("bilbo.hobbit", "ANY"): ["bilbo.hobbit. 3600 A 127.0.0.16"],
    ("www.hobbit", "ANY"): ["www.hobbit. 7200 CNAME best.hobbit."],
}


@pytest.mark.parametrize(("question", "expected"), POSITIVE.items(), ids=[" ".join(q) for q in POSITIVE])
def test_what_there_is(question: tuple[str, str], expected: list[str]) -> None:
    found = look(*question)
    assert [line(record) for record in found.answer] == expected
    assert (found.rcode, found.authoritative) == (Rcode.NOERROR, True)
    assert found.authority == found.additional == ()


@pytest.mark.parametrize(
    ("qname", "qtype", "rcode", "answer"),
    [
        ("bilbo.hobbit", "AAAA", Rcode.NOERROR, []),
        ("old.hobbit", "A", Rcode.NOERROR, []),
        ("below.hobbit", "A", Rcode.NOERROR, []),  # empty non-terminal
        ("ent.below.hobbit", "A", Rcode.NOERROR, []),
        ("ent.below.hobbit", "ANY", Rcode.NOERROR, []),
        ("wild.hobbit", "A", Rcode.NOERROR, []),  # exists by what is below
        ("x.wild.hobbit", "MX", Rcode.NOERROR, []),
        ("a.wild.hobbit", "A", Rcode.NOERROR, []),  # exists by b.a.wild: no wildcard there
        ("bare.hobbit", "DS", Rcode.NOERROR, []),
        ("nowhere.hobbit", "A", Rcode.NXDOMAIN, []),
        ("x.a.wild.hobbit", "A", Rcode.NXDOMAIN, []),  # a.wild is nearer and has no wildcard
        ("x.bilbo.hobbit", "A", Rcode.NXDOMAIN, []),
        ("x.best.hobbit", "A", Rcode.NXDOMAIN, []),  # below a pool's name
        ("dangling.hobbit", "A", Rcode.NXDOMAIN, ["dangling.hobbit. 3600 CNAME nowhere.hobbit."]),
        ("x.alias.hobbit", "AAAA", Rcode.NOERROR, ["x.alias.hobbit. 3600 CNAME bilbo.hobbit."]),
    ],
)
def test_what_there_is_not(qname: str, qtype: str, rcode: Rcode, answer: list[str]) -> None:
    found = look(qname, qtype)
    assert found.rcode is rcode
    assert found.authoritative
    assert [line(record) for record in found.answer] == answer
    # TTL = min(SOA TTL, SOA minimum), RFC 2308 section 3
    assert [line(record) for record in found.authority] == [f"hobbit. 300 SOA {SOA}"]


def test_the_ttl_of_a_denial_may_be_that_of_the_soa() -> None:
    text = "@ 60 SOA ns hostmaster 1 2 3 4 900\n@ 60 NS ns.z.\n"
    index = ZoneIndex(parse_zone("z", text, Path("z.zone")), ())
    assert [record.ttl for record in look("no.z", "A", index).authority] == [60]


@pytest.mark.parametrize("qname", ["sub.hobbit", "x.sub.hobbit", "ns.sub.hobbit", "y.x.sub.hobbit"])
@pytest.mark.parametrize("qtype", ["A", "NS", "ANY", "TXT"])
def test_a_delegation_is_a_referral(qname: str, qtype: str) -> None:
    found = look(qname, qtype)
    assert (found.rcode, found.authoritative, found.answer) == (Rcode.NOERROR, False, ())
    assert [line(record) for record in found.authority] == [
        "sub.hobbit. 3600 NS ns.sub.hobbit.",
        "sub.hobbit. 3600 NS ns.elsewhere.example.",
    ]
    # Only for queries with DO (RFC 3225 section 3, RFC 4035 section 3.1.4)
    assert [line(record) for record in found.dnssec] == ["sub.hobbit. 3600 DS 1 8 2 " + "00" * 32]
    assert [line(record) for record in found.additional] == [
        "ns.sub.hobbit. 3600 A 127.0.0.80",
        "ns.sub.hobbit. 3600 AAAA ::80",
    ]


TARGETS = """$TTL 9
@ SOA ns hostmaster 1 2 3 4 5
@ NS ns
@ NS ns.sub
@ NS ns.elsewhere.example.
@ A 127.0.0.10
@ MX 0 .
ns A 127.0.0.1
ns A 127.0.0.2
ns AAAA ::1
mail AAAA ::2
mail MX 10 mail
mail MX 20 MAIL
mail MX 30 ns
mail MX 40 alias
mail MX 50 ns.sub
mail MX 60 x.wild
mail MX 70 mail.elsewhere.example.
mail MX 80 best
mail MX 90 nowhere
mail MX 95 x.renamed
alias CNAME ns
*.wild A 127.0.0.3
renamed DNAME wild
sub NS ns.sub
sub NS ns.sibling
sub NS ns
ns.sub A 127.0.0.4
sibling NS ns.sibling
ns.sibling A 127.0.0.5
srv SRV 0 0 1 mail
srv SRV 0 0 2 mail
kx KX 1 mail
afsdb AFSDB 1 mail
rt RT 1 mail
mb MB mail
md MD mail
mf MF mail
ptr PTR mail
alias-mode HTTPS 0 mail
service-mode SVCB 1 mail alpn=h2
self HTTPS 1 . alpn=h2
self A 127.0.0.6
none HTTPS 0 .
none A 127.0.0.7
chain CNAME srv
"""
NS_ADDRESSES = ["ns.z. 9 A 127.0.0.1", "ns.z. 9 A 127.0.0.2", "ns.z. 9 AAAA ::1"]
MAIL_ADDRESS = ["mail.z. 9 AAAA ::2"]


@pytest.mark.parametrize(
    ("qname", "qtype", "expected"),
    [
        ("z", "NS", [*NS_ADDRESSES, "ns.sub.z. 9 A 127.0.0.4"]),  # glue too
        ("z", "MX", []),
        # Once each, also by a wildcard; not for aliases, delegated names, pools or names outside the zone
        ("mail.z", "MX", [*MAIL_ADDRESS, *NS_ADDRESSES, "x.wild.z. 9 A 127.0.0.3"]),
        *((f"{owner}.z", owner, MAIL_ADDRESS) for owner in ("srv", "kx", "afsdb", "rt", "mb", "md", "mf")),
        ("chain.z", "SRV", MAIL_ADDRESS),
        ("alias-mode.z", "HTTPS", MAIL_ADDRESS),
        ("service-mode.z", "SVCB", MAIL_ADDRESS),
        ("self.z", "HTTPS", ["self.z. 9 A 127.0.0.6"]),
        ("none.z", "HTTPS", []),
        ("ptr.z", "PTR", []),
        ("z", "ANY", []),
        ("alias.z", "CNAME", []),
    ],
)
def test_the_addresses_of_hosts_that_records_name_are_optional(qname: str, qtype: str, expected: list[str]) -> None:
    index = ZoneIndex(parse_zone("z", TARGETS, Path("z.zone")), [names.from_text("best.z")])
    found = look(qname, qtype, index)
    assert found.answer
    assert found.additional == ()
    assert [line(record) for rrset in found.optional for record in rrset] == expected
    assert all(len({record[:2] for record in rrset}) == 1 for rrset in found.optional), "an RRset each"


def test_a_referral_needs_its_glue_and_no_other_address() -> None:
    found = look("x.sub.z", "A", ZoneIndex(parse_zone("z", TARGETS, Path("z.zone")), ()))
    assert [line(record) for record in found.additional] == ["ns.sub.z. 9 A 127.0.0.4", "ns.sibling.z. 9 A 127.0.0.5"]
    assert [line(record) for rrset in found.optional for record in rrset] == NS_ADDRESSES


def test_the_hosts_whose_addresses_are_looked_up_are_limited() -> None:
    hosts = "".join(f"@ MX 1 m{i}\nm{i} A 127.0.0.1\n" for i in range(MAX_TARGETS + 9))
    text = "$TTL 9\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns.x.\n" + hosts
    found = look("z", "MX", ZoneIndex(parse_zone("z", text, Path("z.zone")), ()))
    assert (len(found.answer), len(found.optional)) == (MAX_TARGETS + 9, MAX_TARGETS)


def test_ds_below_a_delegation_is_the_childs_business() -> None:
    assert not look("x.sub.hobbit", "DS").authoritative


def test_an_alias_into_a_delegation_is_ours_and_refers() -> None:
    found = look("into.hobbit", "A")
    assert found.authoritative
    assert [line(record) for record in found.answer] == ["into.hobbit. 3600 CNAME host.sub.hobbit."]
    assert line(found.authority[0]) == "sub.hobbit. 3600 NS ns.sub.hobbit."


def test_a_name_that_a_dname_makes_too_long() -> None:
    text = "@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns.z.\nd DNAME " + "x" * 63 + ".z.\n"
    index = ZoneIndex(parse_zone("z", "$TTL 9\n" + text, Path("z.zone")), ())
    longest = ".".join(["y" * 63] * 3 + ["y" * 40]) + ".d.z"
    found = look(longest, "A", index)
    assert found.rcode is Rcode.YXDOMAIN
    assert [record.rtype for record in found.answer] == [39]


def test_a_dname_at_the_apex_redirects_everything_below() -> None:
    text = "$TTL 9\n@ SOA ns.x. hostmaster.x. 1 2 3 4 5\n@ NS ns.x.\n@ DNAME other.example.\n"
    index = ZoneIndex(parse_zone("z", text, Path("z.zone")), ())
    found = look("a.b.z", "A", index)
    assert [line(record) for record in found.answer] == [
        "z. 9 DNAME other.example.",
        "a.b.z. 9 CNAME a.b.other.example.",
    ]
    assert look("z", "SOA", index).answer[0].rtype == 6


@pytest.mark.parametrize("links", [MAX_CHAIN, MAX_CHAIN + 1, 40])
def test_a_chain_is_followed_to_its_end_or_given_up(links: int) -> None:
    chain = "".join(f"c{i} CNAME c{i + 1}\n" for i in range(links))
    text = f"$TTL 9\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns.z.\n{chain}c{links} A 127.0.0.1\n"
    found = look("c0.z", "A", ZoneIndex(parse_zone("z", text, Path("z.zone")), ()))
    reached = [record.rtype for record in found.answer].count(1)
    assert reached == (links <= MAX_CHAIN)
    assert [record.rtype for record in found.answer].count(5) == min(links, MAX_CHAIN)


@pytest.mark.parametrize("qname", ["best.hobbit", "www.hobbit", "far.hobbit", "best.pools.hobbit"])
def test_the_name_of_a_pool_is_left_to_whoever_asked(qname: str) -> None:
    found = look_up(HOBBIT_INDEX, names.from_text(qname), 1)
    assert isinstance(found, PoolMatch)
    assert found.owner == names.from_text("best.hobbit")
    assert [names.to_text(record.owner) for record in found.aliases] == {
        "best.hobbit": [],
        "www.hobbit": ["www.hobbit"],
        "far.hobbit": ["far.hobbit", "www.hobbit"],
        "best.pools.hobbit": ["pools.hobbit", "best.pools.hobbit"],
    }[qname]


# The second implementation. Wildcards that delegate or redirect are left out: what they mean is undefined
# (RFC 4592 sections 4.2 and 4.4).

NOTHING: st.SearchStrategy[dict[str, list[str]]] = st.just({})
LABELS = st.sampled_from(["a", "b", "*"])
PLAIN = st.sampled_from(["a", "b", "c"])


def names_below(origin: str, labels: st.SearchStrategy[str], least: int = 1) -> st.SearchStrategy[str]:
    return st.lists(labels, min_size=least, max_size=3).map(lambda found: ".".join([*found, origin]))


def targets(origin: str) -> st.SearchStrategy[str]:
    return names_below(origin, PLAIN, 0) | st.sampled_from(["www.example.", "a.example."])


def data(origin: str) -> st.SearchStrategy[dict[str, list[str]]]:
    possible = {
        "A": ["127.0.0.1", "127.0.0.2"],
        "AAAA": ["::1"],
        "MX": [f"10 a.{origin}", f"20 b.a.{origin}"],
        "SRV": [f"0 0 1 b.{origin}", f"0 0 2 b.{origin}"],
    }
    return st.dictionaries(st.sampled_from(sorted(possible)), st.booleans(), min_size=1).map(
        lambda kinds: {kind: possible[kind][: 1 + twice] for kind, twice in kinds.items()}
    )


@st.composite
def nodes(draw: st.DrawFn, origin: str, owner: str) -> dict[str, list[str]]:
    kinds = ["data", "cname"] if owner.startswith("*") else ["data", "data", "cname", "ns", "dname"]
    match draw(st.sampled_from(kinds)):
        case "cname":
            return {"CNAME": [draw(targets(origin))]}
        case "ns":
            found = {"NS": draw(st.lists(targets(origin), min_size=1, max_size=2, unique=True))}
            if draw(st.booleans()):
                found["DS"] = ["1 8 2 " + "00" * 32]
            return found
        case "dname":
            return {**draw(NOTHING | data(origin)), "DNAME": [draw(targets(origin))]}
        case _:
            return draw(data(origin))


@st.composite
def zones(draw: st.DrawFn) -> dict[str, dict[str, list[str]]]:
    origin = "z."
    owners = draw(st.lists(names_below(origin, LABELS), max_size=8, unique=True))
    apex = draw(NOTHING | NOTHING | data(origin) | st.just({"DNAME": ["c.example."]}))
    return {
        origin: {**apex, "SOA": [MODEL_SOA], "NS": ["a.z."]},
        **{owner: draw(nodes(origin, owner)) for owner in owners},
    }


MODEL_SOA = "a.z. b.z. 1 2 3 4 60"


def folded(records: tuple[Record, ...]) -> list[Line]:
    found = []
    for record in records:
        owner, ttl, rtype, rdata = line(record).split(" ", 3)
        assert ttl == "60"
        found.append((owner, rtype, rdata))
    return found


@settings(max_examples=300, deadline=None)
@given(
    zones(),
    st.lists(
        st.tuples(
            names_below("z.", st.sampled_from(["a", "b", "c", "*"]), 0),
            st.sampled_from(["A", "A", "AAAA", "MX", "SRV", "CNAME", "NS", "DS", "DNAME", "SOA", "TXT"]),
        ),
        min_size=1,
        max_size=12,
    ),
)
@example(  # a DNAME into itself
    {"z.": {"SOA": [MODEL_SOA], "NS": ["a.z."]}, "b.z.": {"A": ["127.0.0.1"]}, "a.z.": {"DNAME": ["a.a.z."]}},
    [("a.a.z.", "A")],
)
def test_agrees_with_a_second_implementation(
    zone: dict[str, dict[str, list[str]]], questions: list[tuple[str, str]]
) -> None:
    text = "$TTL 60\n" + "".join(
        f"{owner} {rtype} {rdata}\n" for owner, records in zone.items() for rtype in records for rdata in records[rtype]
    )
    index = ZoneIndex(parse_zone("z", text, Path("z.zone")), ())
    model = ModelZone("z.", zone, MODEL_SOA)
    for qname, qtype in questions:
        expected = model.answer(qname, qtype)
        found = look(qname, qtype, index)
        where = f"{qname} {qtype}\n{text}"
        assert found.rcode.name == expected.rcode, where
        assert folded(found.answer) == expected.answer, where
        assert folded(found.authority) == expected.authority, where
        assert folded(found.dnssec) == expected.dnssec, where
        additional = found.additional + tuple(record for rrset in found.optional for record in rrset)
        assert sorted(folded(additional)) == sorted(expected.additional), where
        assert found.authoritative == expected.authoritative, where
