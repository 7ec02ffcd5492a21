"""Tests of TSIG: dnspython signs queries and verifies responses, and every kind of invalid signature is covered."""

from __future__ import annotations

import struct
from dataclasses import replace

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rdtypes.ANY.TSIG
import dns.tsig
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.query_reader import read_query
from lbdns.answering.responder import DeferredAnswer, Responder
from lbdns.answering.tsig import check_signature, keyring
from lbdns.config import KeyConfig
from lbdns.config.key_section import ALGORITHMS
from lbdns.zones import names
from tests.answering.asking import TCP, UDP, client
from tests.answering.secondaries import KEY, dns_key, hobbit_responder, query_for

HOSTILE = KeyConfig("secondary", "hmac-sha256", b"another secret")


def checked(responder: Responder, query: dns.message.Message, transport: int = UDP) -> dns.message.Message:
    """Return the response, after dnspython has verified its signature, which also covers the query's MAC."""
    wire = responder.respond(query.to_wire(), client(), transport)
    assert isinstance(wire, bytes)
    return dns.message.from_wire(wire, keyring=query.keyring, request_mac=query.mac)


def tsig_of(wire: bytes | DeferredAnswer | None) -> tuple[dns.message.Message, dns.rdtypes.ANY.TSIG.TSIG]:
    """Return a response and its unverified TSIG record."""
    assert isinstance(wire, bytes)
    message = dns.message.from_wire(wire, keyring=lambda *_: False)
    assert message.tsig is not None
    rdata = message.tsig[0]
    assert isinstance(rdata, dns.rdtypes.ANY.TSIG.TSIG)
    return message, rdata


# Good signatures


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("transport", [UDP, TCP])
def test_whoever_signs_gets_a_signed_response(algorithm: str, transport: int) -> None:
    key = KeyConfig("some.key", algorithm, b"sixteen octets..")
    responder = hobbit_responder(keys=(KEY, key))
    for name, rtype in (("hobbit", "SOA"), ("best.hobbit", "A"), ("nowhere.hobbit", "A"), ("orc", "A")):
        response = checked(responder, query_for(name, rtype, key=dns_key(key)), transport)
        assert response.had_tsig, name
        assert not response.tsig_error


def test_the_answer_is_the_one_without_a_signature() -> None:
    responder = hobbit_responder()
    signed = checked(responder, query_for("gandalf.hobbit", "A", key=dns_key(), payload=1232))
    wire = responder.respond(query_for("gandalf.hobbit", "A").to_wire(), client())
    assert isinstance(wire, bytes)
    assert signed.answer == dns.message.from_wire(wire).answer
    assert (signed.edns, signed.flags) == (0, dns.flags.QR | dns.flags.AA)


def test_the_rotation_moves_by_one_a_query() -> None:
    responder = hobbit_responder()
    answers = [checked(responder, query_for("round.robin.hobbit", "CNAME", key=dns_key())).answer[0] for _ in range(6)]
    assert [str(a[0]) for a in answers[:3]] == [str(a[0]) for a in answers[3:]]
    assert len({str(a[0]) for a in answers}) == 3


def test_key_names_in_any_case_and_compressed() -> None:
    key = replace(KEY, name="secondary.hobbit")
    query = query_for("hobbit", "SOA", key=dns.tsig.Key("SECONDARY.hobbit.", KEY.secret, "HMAC-SHA256."))
    wire = query.to_wire()
    assert b"hobbit" not in wire[20:], "dnspython writes the key's name as a pointer to the question"
    response = hobbit_responder(keys=[key]).respond(wire, client())
    assert isinstance(response, bytes)
    assert dns.message.from_wire(response, keyring=dns_key(key), request_mac=query.mac).had_tsig


def test_the_original_id_is_the_one_that_is_signed() -> None:
    query = query_for("hobbit", "SOA", key=dns_key())
    forwarded = b"\x77\x77" + query.to_wire()[2:]
    response, tsig = tsig_of(hobbit_responder().respond(forwarded, client()))
    assert (response.id, tsig.original_id, tsig.error, len(tsig.mac)) == (0x7777, 0x7777, 0, 32)


def test_what_does_not_fit_with_its_signature_is_truncated_and_signed() -> None:
    responder = hobbit_responder()
    plain = responder.respond(query_for("big.hobbit", "TXT", payload=1232).to_wire(), client())
    assert isinstance(plain, bytes)
    assert len(plain) > 512
    for payload in (len(plain), len(plain) + 60, len(plain) + 200):
        query = query_for("big.hobbit", "TXT", key=dns_key(), payload=payload)
        wire = responder.respond(query.to_wire(), client())
        assert isinstance(wire, bytes)
        assert len(wire) <= payload
        response = dns.message.from_wire(wire, keyring=query.keyring, request_mac=query.mac)
        assert response.had_tsig
        assert bool(response.flags & dns.flags.TC) == (payload < len(plain) + 90)
        assert bool(response.answer) != bool(response.flags & dns.flags.TC)
    over_tcp = checked(responder, query_for("big.hobbit", "TXT", key=dns_key()), TCP)
    assert over_tcp.answer


def test_an_error_beside_the_signature_is_signed_too() -> None:
    query = query_for("hobbit", "SOA", key=dns_key())
    query.use_edns(1)
    response = checked(hobbit_responder(), query)
    assert (response.rcode(), response.had_tsig) == (dns.rcode.BADVERS, True)


# Wrong signatures (RFC 8945 section 5.2)


@pytest.mark.parametrize(
    "key",
    [replace(KEY, name="stranger"), replace(KEY, algorithm="hmac-sha512"), replace(KEY, name="stranger" + ".x" * 60)],
    ids=["name", "algorithm", "long name"],
)
def test_a_key_that_we_do_not_have(key: KeyConfig) -> None:
    query = query_for("hobbit", "SOA", key=dns_key(key))
    response, tsig = tsig_of(hobbit_responder().respond(query.to_wire(), client()))
    assert response.rcode() == dns.rcode.NOTAUTH
    assert (tsig.error, tsig.mac) == (dns.rcode.BADKEY, b"")
    assert response.tsig is not None
    assert str(response.tsig.name) == f"{key.name}."
    assert not response.answer
    with pytest.raises(dns.tsig.PeerBadKey):
        checked(hobbit_responder(), query)


def test_the_name_of_an_unknown_key_is_echoed_only_if_the_response_fits_every_client() -> None:
    query = query_for(".".join(["x" * 60] * 4), "A", key=dns_key(replace(KEY, name=".".join(["y" * 60] * 4))))
    wire = hobbit_responder().respond(query.to_wire(), client())
    assert isinstance(wire, bytes)
    response = dns.message.from_wire(wire)
    assert (response.rcode(), response.tsig) == (dns.rcode.FORMERR, None)
    assert len(wire) <= 512


def test_a_wrong_secret() -> None:
    query = query_for("best.hobbit", "A", key=dns_key(HOSTILE))
    response, tsig = tsig_of(hobbit_responder().respond(query.to_wire(), client()))
    assert response.rcode() == dns.rcode.NOTAUTH
    assert (tsig.error, tsig.mac) == (dns.rcode.BADSIG, b"")
    assert not response.answer


def test_every_bit_of_the_message_is_signed() -> None:
    query = query_for("best.hobbit", "A", key=dns_key(), payload=1232).to_wire()
    at = read(query)
    for bit in range(16, 8 * at):
        wire = bytearray(query)
        wire[bit // 8] ^= 1 << bit % 8
        found = read_query(bytes(wire))
        if found and found.tsig_at and not found.error:
            signed = check_signature(bytes(wire), found.tsig_at, keyring([KEY]), tsig_of_query(query).time_signed)
            assert signed is None or signed.error, bit


def read(wire: bytes) -> int:
    query = read_query(wire)
    assert query is not None
    assert query.tsig_at
    return query.tsig_at


def tsig_of_query(wire: bytes) -> dns.rdtypes.ANY.TSIG.TSIG:
    return tsig_of(wire)[1]


@pytest.mark.parametrize(("ahead", "fudge"), [(301, 300), (-301, 300), (6, 5), (1e9, 65535)])
def test_a_clock_that_is_wrong(ahead: float, fudge: int) -> None:
    query = query_for("hobbit", "SOA", key=dns_key(), fudge=fudge)
    sent = query.to_wire()
    responder = hobbit_responder()
    responder.tick(0.0, tsig_of_query(sent).time_signed + ahead)
    wire = responder.respond(sent, client())
    response, tsig = tsig_of(wire)
    assert isinstance(wire, bytes)
    assert response.rcode() == dns.rcode.NOTAUTH
    assert tsig.error == dns.rcode.BADTIME
    assert tsig.time_signed == tsig_of_query(sent).time_signed
    assert int.from_bytes(tsig.other, "big") == int(responder.wall)
    # Signed nevertheless: by the same arithmetic in dnspython's words
    at = wire.rindex(b"\x09secondary\0\0\xfa")
    unsigned = wire[:10] + struct.pack("!H", int.from_bytes(wire[10:12], "big") - 1) + wire[12:at]
    made, _ = dns.tsig.sign(unsigned, dns_key(), tsig, tsig.time_signed, query.mac)  # type: ignore[no-untyped-call]
    assert made.mac == tsig.mac


@pytest.mark.parametrize(("ahead", "fudge"), [(300, 300), (-300, 300), (5, 5), (0, 0)])
def test_a_clock_that_is_a_little_wrong(ahead: float, fudge: int) -> None:
    sent = query_for("hobbit", "SOA", key=dns_key(), fudge=fudge).to_wire()
    responder = hobbit_responder()
    responder.tick(0.0, tsig_of_query(sent).time_signed + ahead)
    _, tsig = tsig_of(responder.respond(sent, client()))
    assert (tsig.error, len(tsig.mac)) == (0, 32)


def cut_mac(wire: bytes, length: int) -> bytes:
    """Return the query with its MAC truncated or padded to ``length`` bytes."""
    at = read(wire)
    tsig = tsig_of_query(wire)
    mac = (tsig.mac + b"x" * 8)[:length]
    other = tsig.replace(mac=mac).to_wire()
    assert other is not None
    head = wire[:at] + b"\x09secondary\0" + struct.pack("!HHIH", dns.rdatatype.TSIG, 255, 0, len(other))
    return head + other


@pytest.mark.parametrize("length", [16, 31, 32])
def test_a_mac_that_is_cut_as_far_as_allowed(length: int) -> None:
    query = query_for("hobbit", "SOA", key=dns_key())
    sent = cut_mac(query.to_wire(), length)
    wire = hobbit_responder().respond(sent, client())
    assert isinstance(wire, bytes)
    response = dns.message.from_wire(wire, keyring=query.keyring, request_mac=tsig_of_query(sent).mac)
    assert (response.rcode(), response.had_tsig) == (dns.rcode.NOERROR, True)


@pytest.mark.parametrize("length", [0, 1, 9, 15, 33, 40])
def test_a_mac_of_a_length_that_is_none(length: int) -> None:
    sent = cut_mac(query_for("hobbit", "SOA", key=dns_key()).to_wire(), length)
    wire = hobbit_responder().respond(sent, client())
    assert isinstance(wire, bytes)
    response = dns.message.from_wire(wire)
    assert (response.rcode(), response.tsig) == (dns.rcode.FORMERR, None)


# Malformed records


QUERY = query_for("hobbit", "SOA", key=dns_key()).to_wire()
AT = read(QUERY)
RDATA = AT + len(b"\x09secondary\0") + 10
ALGORITHM = len(b"\x0bhmac-sha256\0")
#: What is wrong, where it stands, what stands there instead
MALFORMED = [
    ("class IN", RDATA - 8, b"\0\1"),
    ("a TTL", RDATA - 6, b"\0\0\0\1"),
    ("an algorithm that is a pointer", RDATA, b"\xc0\x0c"),
    ("an algorithm of unknown labels", RDATA, b"\x40"),
    ("a MAC longer than the record", RDATA + ALGORITHM + 8, b"\xff\xff"),
    ("a MAC shorter than the record's", RDATA + ALGORITHM + 8, b"\0\x1f"),
    ("other data that isn't there", len(QUERY) - 2, b"\0\1"),
]


@pytest.mark.parametrize(("at", "octets"), [m[1:] for m in MALFORMED], ids=[m[0] for m in MALFORMED])
def test_malformed(at: int, octets: bytes) -> None:
    wire = QUERY[:at] + octets + QUERY[at + len(octets) :]
    response = hobbit_responder().respond(wire, client())
    assert isinstance(response, bytes)
    message = dns.message.from_wire(response)
    assert (message.rcode(), message.tsig) == (dns.rcode.FORMERR, None)


def with_owner(owner: bytes) -> bytes:
    return QUERY[:AT] + owner + QUERY[RDATA - 10 :]


@pytest.mark.parametrize(
    "owner",
    [
        struct.pack("!H", 0xC000 | AT),  # itself
        struct.pack("!H", 0xC000 | AT + 2),  # ahead
        struct.pack("!H", 0xC000),  # the header
        b"\1x" + struct.pack("!H", 0xC000 | AT),  # its own beginning
    ],
)
def test_pointers_that_lead_nowhere(owner: bytes) -> None:
    assert check_signature(with_owner(owner), AT, keyring([KEY]), 0.0) is None


def test_a_name_that_pointers_make_too_long() -> None:
    question = names.from_text(".".join(["x" * 60] * 4))
    wire = QUERY[:12] + question + QUERY[19:AT]
    at = len(wire)
    assert (
        check_signature(wire + b"\x3f" + b"y" * 63 + b"\xc0\x0c" + QUERY[RDATA - 10 :], at, keyring([KEY]), 0.0) is None
    )


@given(st.binary(max_size=100))
def test_whatever_follows_the_name_no_exception(octets: bytes) -> None:
    for wire in (QUERY[:AT] + octets, QUERY[:RDATA] + octets, QUERY[: RDATA + ALGORITHM] + octets):
        check_signature(wire, AT, keyring([KEY]), 0.0)


RESPONDER = hobbit_responder()


@given(st.integers(0, len(QUERY) - 1), st.binary(min_size=1, max_size=4), st.sampled_from([UDP, TCP]))
def test_a_changed_query_is_answered_well_formed(at: int, octets: bytes, transport: int) -> None:
    wire = (QUERY[:at] + octets + QUERY[at + len(octets) :])[: len(QUERY)]
    response = RESPONDER.respond(wire, client(), transport)
    if response is not None:
        assert isinstance(response, bytes)
        assert response[:2] == wire[:2]
        message = dns.message.from_wire(response, keyring=lambda *_: False)
        assert len(response) <= 512 or transport == TCP
        assert message.flags & dns.flags.QR


def test_secrets_do_not_show() -> None:
    secret = KEY.secret.hex()
    for thing in (KEY, keyring([KEY]), hobbit_responder().table.farm.config):
        text = repr(thing)
        assert "secondary" in text
        assert repr(KEY.secret)[2:-1] not in text
        assert secret not in text
