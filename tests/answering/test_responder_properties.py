"""Properties of all responses: they are well-formed, respect the size limit, and agree with the zone."""

from __future__ import annotations

import itertools
from dataclasses import replace
from unittest import mock

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.responder import Responder
from lbdns.config import AnswerForm
from lbdns.model.farm import Farm
from lbdns.policies.plan import Plan
from tests.answering.asking import TCP, UDP, client, make_query, read, short
from tests.answering.farms import HOBBIT, hobbit, make_farm, pool
from tests.answering.test_zone_lookup import MODEL_SOA, names_below, zones
from tests.answering.zone_model import Expected, ModelZone

SECRET = bytes(range(16))


def responder_of(farm: Farm, **server: object) -> Responder:
    """Return a responder with cookies; ``server`` overrides settings of the [server] section."""
    config = replace(farm.config, server=replace(farm.config.server, **server))  # type: ignore[arg-type]
    responder = Responder(AnswerTable(replace(farm, config=config)), (SECRET,))
    responder.tick(1000.0, 1_800_000_000.0)
    return responder


FARM = hobbit(pool(), pool("at", names={"at": "round_robin"}, answer="address"))
RESPONDERS = {
    payload: responder_of(FARM, payload=payload, identity="x" * 255, version="lbdns") for payload in (512, 600, 1232)
}

# Queries: whole ones first, and then what chance makes of them

OWNERS = sorted({line.split()[0] for line in HOBBIT.splitlines() if line[:1].isalnum()} | {"best", "at", "nowhere"})
LABELS = st.sampled_from([*OWNERS, "hobbit", "x", "*", "round.robin", "id.server", "version.bind"])
QNAMES = st.lists(LABELS, max_size=3).flatmap(
    lambda labels: st.sampled_from([".".join([*labels, ""]) or ".", ".".join([*labels, "hobbit"])])
)
RDTYPES = st.sampled_from(["A", "AAAA", "TXT", "CNAME", "ANY", "SOA", "NS", "AXFR", "IXFR", "OPT", "TYPE65280", "DS"])
COOKIES = st.sampled_from([b"", bytes(7), bytes(8), bytes(16), bytes(24), bytes(40), bytes(41)])
OPTIONS: st.SearchStrategy[list[dns.edns.Option]] = st.lists(
    st.one_of(
        st.builds(dns.edns.GenericOption, st.just(dns.edns.OptionType.COOKIE), COOKIES),
        st.builds(dns.edns.GenericOption, st.sampled_from([3, 8, 11, 12, 15, 65001]).map(dns.edns.OptionType.make),
                  st.sampled_from([b"", b"\0\1\x18\0\xc0\0\2", b"\0\1\x19\0\xc0\0\2\x80", b"\0\2\0\0", bytes(30)])),
    ),
    max_size=4,
)  # fmt: skip


@st.composite
def queries(draw: st.DrawFn) -> bytes:
    payload = draw(st.none() | st.sampled_from([0, 511, 512, 513, 599, 600, 1231, 1232, 1233, 4096, 65535]))
    name = dns.name.from_text(draw(QNAMES))
    wire = make_query(
        name,
        draw(RDTYPES),
        ident=draw(st.integers(0, 65535)),
        recurse=draw(st.booleans()),
        payload=payload,
        dnssec_ok=draw(st.booleans()),
        version=draw(st.sampled_from([0, 0, 0, 1, 255])),
        options=draw(OPTIONS),
    )
    if draw(st.integers(0, 7)) == 0:
        end = 12 + len(name.to_wire() or b"") + 4
        wire = wire[: end - 2] + draw(st.sampled_from([b"\0\3", b"\0\4", b"\0\xff", b"\0\0"])) + wire[end:]
    return wire


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    wire = bytearray(draw(queries()))
    for at, octet in draw(st.lists(st.tuples(st.integers(2, 80), st.integers(0, 255)), max_size=3)):
        wire[at % len(wire)] = octet
    return bytes(wire[: draw(st.sampled_from([len(wire)] * 4 + [len(wire) - 1, len(wire) // 2]))])


def parsed(query: bytes) -> dns.message.Message | None:
    """Return the query as parsed by dnspython, or None if dnspython considers it malformed."""
    try:
        return dns.message.from_wire(query, keyring=False)
    except (dns.exception.DNSException, ValueError):
        return None


def check(query: bytes, said: object, transport: int, payload: int) -> None:
    """Check that ``said`` is a valid response to this query, or is None if the query must not be answered."""
    if said is None:
        assert len(query) < 12 or query[2] & 0x80
        return
    assert isinstance(said, bytes)
    assert said[:2] == query[:2]
    message = read_loosely(said)
    assert not message.flags & (dns.flags.RA | dns.flags.AD | dns.flags.CD)
    if message.question:
        end = 12 + len(message.question[0].name.to_wire() or b"") + 4
        assert said[12:end] == query[12:end]
    asked = parsed(query)
    if transport == TCP:
        assert len(said) <= 65_535
    elif asked is None or asked.edns < 0:
        assert len(said) <= 512
    else:
        assert len(said) <= min(max(512, asked.payload), payload)
    assert (message.edns >= 0) <= (asked is None or asked.edns >= 0), "an OPT record that nobody asked for"
    if message.edns >= 0:
        assert message.payload == payload


def read_loosely(wire: bytes) -> dns.message.Message:
    """Read a response that may contain a client subnet option of family 0, which dnspython cannot parse."""
    if bytes((0, 8, 0, 4, 0, 0, 0, 0)) not in wire:
        return read(wire)
    with mock.patch("dns.edns.get_option_class", return_value=dns.edns.GenericOption):
        return read(wire)


@settings(max_examples=300, deadline=None)
@given(
    queries() | damaged() | st.binary(max_size=100), st.sampled_from([UDP, TCP]), st.sampled_from(sorted(RESPONDERS))
)
def test_any_bytes_get_a_sound_response_or_none(query: bytes, transport: int, payload: int) -> None:
    who = client()
    for _ in range(2):
        check(query, RESPONDERS[payload].respond(query, who, transport), transport, payload)


@settings(max_examples=200, deadline=None)
@given(queries(), st.sampled_from(sorted(RESPONDERS)))
def test_what_is_cut_over_udp_is_said_over_tcp(query: bytes, payload: int) -> None:
    responder = RESPONDERS[payload]
    over_udp, over_tcp = (responder.respond(query, client(), transport) for transport in (UDP, TCP))
    assert isinstance(over_udp, bytes)
    if not over_udp[2] & 0x02 or not isinstance(over_tcp, bytes):
        return
    assert not over_tcp[2] & 0x02
    assert len(over_tcp) > 512, "what fits everybody is not cut"
    assert over_udp[6:10] == bytes(4), "no RRset is torn"


# The zone: whole responses against the model, for every name nearby

NEARBY = [
    ".".join([*labels, "z."]) for length in range(4) for labels in itertools.product(("a", "b", "*"), repeat=length)
]
TYPES = ("A", "MX", "SRV", "CNAME", "NS", "DS", "DNAME", "TXT")


def check_agrees(responder: Responder, model: ModelZone, qname: str, qtype: str) -> None:
    """Check that the UDP response and then the TCP response (from precompiled answers) agree with the model."""
    expected = model.answer(qname, qtype)
    query = make_query(qname, qtype, payload=1232)
    for transport in (UDP, TCP):
        message = read(responder.respond(query, client(), transport))
        where = f"{qname} {qtype}"
        if message.flags & dns.flags.TC:
            assert transport == UDP, where
            continue
        assert said(message) == in_order(expected), where


def said(message: dns.message.Message) -> Expected:
    found = (short(section) for section in (message.answer, message.authority, message.additional))
    answer, authority, additional = found
    rcode = dns.rcode.to_text(message.rcode())
    return Expected(rcode, bool(message.flags & dns.flags.AA), answer, authority, sorted(additional))


def in_order(expected: Expected) -> Expected:
    # Glue has no order; and dnspython shows a record once, also if a chain of aliases comes by its DNAME twice
    answer = list(dict.fromkeys(expected.answer))
    additional = sorted(dict.fromkeys(expected.additional))
    return replace(expected, answer=answer, additional=additional, dnssec=[])


def text_of(zone: dict[str, dict[str, list[str]]]) -> str:
    return "$TTL 60\n" + "".join(
        f"{owner} {rtype} {rdata}\n" for owner, records in zone.items() for rtype in records for rdata in records[rtype]
    )


@settings(max_examples=20, deadline=None)
@given(zones(), st.sampled_from(TYPES), st.lists(names_below("z.", st.sampled_from(["a", "b", "c"]), 3), max_size=4))
def test_every_name_nearby_is_answered_as_the_model_does(
    zone: dict[str, dict[str, list[str]]], qtype: str, farther: list[str]
) -> None:
    farm = make_farm({"z": text_of(zone)})
    responder = responder_of(farm)
    model = ModelZone("z.", zone, MODEL_SOA)
    for qname in [*NEARBY, *farther]:
        check_agrees(responder, model, qname, qtype)


#: Nothing that is generated has this owner, but aliases lead there.
POOL = "c"
MEMBERS = "m1 A 127.0.0.1\nm1 MX 10 a\nm2 A 127.0.0.2\n"
FORMS: dict[AnswerForm, str] = {"cname": f"{POOL} CNAME m1\n", "address": f"{POOL} A 127.0.0.1\n"}


@settings(max_examples=20, deadline=None)
@given(zones(), st.sampled_from(["A", "AAAA", "MX", "CNAME", "ANY"]), st.sampled_from(sorted(FORMS)))
def test_a_pool_of_one_says_what_a_zone_would_that_has_its_answer(
    zone: dict[str, dict[str, list[str]]], qtype: str, form: AnswerForm
) -> None:
    assume("DNAME" not in zone["z."])  # nothing is ours below it
    text = text_of(zone) + MEMBERS
    asked = pool("web", "z", ("m1", "m2"), {POOL: "round_robin"}, 60, form)
    dynamic = responder_of(make_farm({"z": text}, [asked]))
    dynamic.table.cursors["web", "round_robin"].set_plan(Plan((0,)))
    static = responder_of(make_farm({"z": text + FORMS[form]}))
    for qname in [*NEARBY, "c.z.", "x.c.z.", "m1.z."]:
        query, who = make_query(qname, qtype), client()
        for transport in (UDP, TCP):
            found = [said(read(responder.respond(query, who, transport))) for responder in (dynamic, static)]
            # A pool is no name server: delegations to it come without its address, which nobody needs
            assert replace(found[0], additional=[]) == replace(found[1], additional=[]), (qname, text)
