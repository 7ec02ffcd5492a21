"""Tests of relayed queries in wire form: upstream queries, accepted upstream responses, and responses to clients."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from itertools import product
from typing import Final

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import dns.tsig
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.relayed_query import AllowedNetworks, RelayedQuery, relayed_body, upstream_query, upstream_question
from lbdns.answering.responder import Responder
from lbdns.answering.upstream_response import read_upstream_response
from lbdns.config import ForwardConfig
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import TCP, UDP, lines, make_query, read, short
from tests.answering.farms import hobbit
from tests.answering.upstream_answers import A_RECORD, ALL_CAPITALS, ASKED, IDENT, NAME, QUESTION, answer, heard

INSIDE: Final = ("10.1.2.3", 4000)
OUTSIDE: Final = ("203.0.113.9", 4000)
FARM: Final = hobbit()
FORWARD: Final = ForwardConfig(
    (Endpoint("192.0.2.1", 53),), (ip_network("10.0.0.0/8"), ip_network("127.0.0.0/8"), ip_network("fd00::/8"))
)


def forwarding(forward: ForwardConfig = FORWARD) -> Responder:
    return Responder(AnswerTable(replace(FARM, config=replace(FARM.config, forward=forward))))


RESPONDER: Final = forwarding()


def asked_for(responder: Responder, query: bytes, transport: int = UDP) -> RelayedQuery:
    """Return the relayed query that results from an allowed client's query."""
    relay = responder.respond(query, INSIDE, transport)
    assert isinstance(relay, RelayedQuery)
    return relay


def relayed(query: bytes, *records: str, flags: int = 0, rcode: dns.rcode.Rcode = dns.rcode.NOERROR) -> bytes:
    """Return the UDP response that an allowed client receives if the upstream's response has these records."""
    responder = forwarding()
    errand = asked_for(responder, query)
    asked = upstream_query(upstream_question(errand), IDENT, ALL_CAPITALS)
    return responder.finish_relayed(errand, relayed_body(errand, heard(asked, *records, rcode=rcode, flags=flags)))


class TestWhoIsRelayed:
    """Which combinations of query and client are relayed: the server must never act as an open resolver."""

    KINDS: Final = ["A", "AAAA", "ANY", "TXT", "NS", "SOA", "DS", "PTR", "HTTPS", "TYPE65280", "AXFR", "IXFR", "MAILB"]

    @pytest.mark.parametrize("recurse", [True, False])
    @pytest.mark.parametrize("rtype", KINDS)
    @pytest.mark.parametrize("host", ["203.0.113.9", "11.0.0.1", "2001:db8::1", "fe80::1%eth0", "9.255.255.255"])
    def test_outside_the_networks_nothing_is(self, host: str, rtype: str, recurse: bool) -> None:
        responder = forwarding()
        names = (NAME, ".", "example", "10.in-addr.arpa", "hobbit.example", "xhobbit")
        for name, payload, transport in product(names, (None, 1232), (UDP, TCP)):
            query = make_query(name, rtype, recurse=recurse, payload=payload, dnssec_ok=True)
            message = read(responder.respond(query, (host, 4000), transport))
            assert message.rcode() == dns.rcode.REFUSED
            assert not message.flags & dns.flags.RA
            assert not message.answer + message.authority

    @pytest.mark.parametrize("host", ["10.0.0.0", "10.255.255.255", "127.0.0.1", "fd12::1", "fdff::1%eth0"])
    def test_inside_it_is(self, host: str) -> None:
        errand = forwarding().respond(make_query(NAME, recurse=True), (host, 4000))
        assert isinstance(errand, RelayedQuery)
        assert (errand.host, errand.transport, errand.aliases) == (host, UDP, ())

    @pytest.mark.parametrize("rtype", KINDS)
    def test_not_if_recursion_is_not_desired(self, rtype: str) -> None:
        message = read(forwarding().respond(make_query(NAME, rtype), INSIDE))
        assert (message.rcode(), message.flags & dns.flags.RA) == (dns.rcode.REFUSED, 0)

    @pytest.mark.parametrize("rtype", ["AXFR", "IXFR", "MAILA", "MAILB", "TKEY", "TSIG", "OPT"])
    def test_not_what_is_no_type_of_records(self, rtype: str) -> None:
        message = read(forwarding().respond(make_query(NAME, rtype, recurse=True), INSIDE, TCP))
        assert message.rcode() in (dns.rcode.REFUSED, dns.rcode.FORMERR)

    @pytest.mark.parametrize("rclass", ["CH", "HS", "ANY", "NONE"])
    def test_not_another_class(self, rclass: str) -> None:
        query = dns.message.make_query(NAME, "TXT", rclass, flags=dns.flags.RD).to_wire()
        assert read(forwarding().respond(query, INSIDE)).rcode() == dns.rcode.REFUSED

    @pytest.mark.parametrize("name", ["hobbit", "BILBO.hobbit", "nowhere.hobbit", "x.sub.hobbit", "best.hobbit"])
    def test_not_what_is_in_a_zone_of_ours(self, name: str) -> None:
        assert isinstance(forwarding().respond(make_query(name, recurse=True), INSIDE), bytes)

    def test_not_what_is_signed_for_us(self) -> None:
        query = dns.message.make_query(NAME, "A", flags=dns.flags.RD)
        query.use_tsig(dns.tsig.Key("key.", b"secret" * 5, "hmac-sha256"))
        assert isinstance(forwarding().respond(query.to_wire(), INSIDE), bytes)

    def test_nobody_s_without_the_section(self) -> None:
        responder = forwarding(ForwardConfig())
        for host in ("127.0.0.1", "10.0.0.1", "::1"):
            message = read(responder.respond(make_query(NAME, recurse=True), (host, 1)))
            assert (message.rcode(), message.flags & dns.flags.RA) == (dns.rcode.REFUSED, 0)

    def test_what_is_remembered_of_addresses_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("lbdns.answering.relayed_query.MAX_HOSTS", 10)
        allowed = AllowedNetworks(FORWARD.allow)
        for number in range(100):
            assert allowed.has(f"10.0.0.{number}")
            assert not allowed.has(f"11.0.0.{number}")
            assert len(allowed._hosts) <= 10


class TestAsking:
    @pytest.mark.parametrize("dnssec_ok", [False, True])
    @pytest.mark.parametrize("checking_disabled", [False, True])
    def test_what_the_upstream_gets(self, dnssec_ok: bool, checking_disabled: bool) -> None:
        query = dns.message.make_query("wWw.Example.ORG", "MX", use_edns=0, payload=4096)
        query.flags = dns.flags.RD | (dns.flags.CD if checking_disabled else 0)
        options = [dns.edns.ECSOption("192.0.2.0", 24), dns.edns.GenericOption(dns.edns.COOKIE, b"12345678")]
        query.use_edns(0, dns.flags.DO if dnssec_ok else 0, 4096, options=options)
        errand = asked_for(forwarding(), query.to_wire())
        asked = dns.message.from_wire(upstream_query(upstream_question(errand), IDENT, 0))
        assert asked.id == 0xCAFE
        expected = dns.flags.RD | dns.flags.AD | (dns.flags.CD if checking_disabled else 0)
        assert asked.flags == expected
        assert asked.question[0].to_text() == "www.example.org. IN MX"
        assert (asked.edns, asked.payload, asked.options) == (0, 1232, ())
        assert bool(asked.ednsflags & dns.flags.DO) is dnssec_ok

    def test_chance_makes_the_letter_case_and_nothing_else(self) -> None:
        low, high = upstream_query(QUESTION, IDENT, 0), upstream_query(QUESTION, IDENT, ALL_CAPITALS)
        assert low != high
        assert low.lower() == high.lower()
        assert b"\3WWW\7EXAMPLE\3ORG\0" in high
        assert b"\3wwW" in upstream_query(QUESTION, IDENT, 1 << 3)

    def test_a_name_without_letters(self) -> None:
        root = replace(QUESTION, qname=b"\0")
        assert upstream_query(root, IDENT, ALL_CAPITALS) == upstream_query(root, IDENT, 0)

    @pytest.mark.parametrize(
        "options",
        [
            {"payload": 512},
            {"payload": 4096},
            {"ident": 7},
            {"options": [dns.edns.ECSOption("192.0.2.0", 24)], "payload": 1232},
        ],
    )
    def test_who_wants_to_know_the_same_asks_the_same(self, options: dict[str, object]) -> None:
        query = make_query("WWW.example.org", recurse=True, **options)  # type: ignore[arg-type]
        assert upstream_question(asked_for(forwarding(), query)) == QUESTION


class TestHandingOn:
    def test_the_client_s_own_id_case_and_bits(self) -> None:
        query = make_query("wWw.eXample.Org", recurse=True, ident=0x4711)
        wire = relayed(query, A_RECORD, flags=dns.flags.AA)
        message = read(wire)
        assert message.id == 0x4711
        assert wire[12 : len(query)] == query[12:]
        assert message.flags == dns.flags.QR | dns.flags.RD | dns.flags.RA
        assert message.edns == -1, "who has no EDNS gets none"
        assert lines(message.answer) == [("wWw.eXample.Org.", "A", 60, "192.0.2.80")]

    def test_our_opt_instead_of_the_upstream_s(self) -> None:
        message = read(relayed(make_query(NAME, recurse=True, payload=4096, dnssec_ok=True), A_RECORD))
        assert (message.edns, message.payload, message.options) == (0, 1232, ())
        assert message.ednsflags == dns.flags.DO

    def test_a_cookie_is_between_the_client_and_us(self) -> None:
        responder = Responder(forwarding().table, [bytes(16)])
        cookie = dns.edns.GenericOption(dns.edns.COOKIE, b"client's")
        errand = asked_for(responder, make_query(NAME, recurse=True, payload=1232, options=[cookie]))
        found = heard(upstream_query(upstream_question(errand), IDENT, 0), A_RECORD)
        (option,) = read(responder.finish_relayed(errand, relayed_body(errand, found))).options
        assert option.otype == dns.edns.COOKIE
        assert option.to_wire()[:8] == b"client's"
        assert len(option.to_wire()) == 24

    def test_names_written_in_full_get_the_client_s_case_too(self) -> None:
        asked = upstream_query(QUESTION, IDENT, ALL_CAPITALS)
        wire = answer(asked, edns=False).to_wire()
        record = asked[12:29] + b"\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\x50"
        errand = asked_for(forwarding(), make_query("www.Example.org", recurse=True))
        found = read_upstream_response(asked, wire[:6] + b"\0\1" + wire[8:] + record)
        assert b"\3www\7Example\3org\0" in relayed_body(errand, found).records

    @pytest.mark.parametrize(
        ("flags", "dnssec_ok", "told"),
        [(0, False, False), (dns.flags.AD, False, True), (0, True, True), (dns.flags.AD | dns.flags.CD, True, True)],
    )
    def test_authentic_data_for_who_asks(self, flags: int, dnssec_ok: bool, told: bool) -> None:
        query = dns.message.make_query(NAME, "A", flags=dns.flags.RD | flags, want_dnssec=dnssec_ok)
        query.flags = dns.flags.RD | flags
        yes = read(relayed(query.to_wire(), A_RECORD, flags=dns.flags.AD))
        assert bool(yes.flags & dns.flags.AD) is told
        assert yes.flags & dns.flags.CD == flags & dns.flags.CD
        assert not read(relayed(query.to_wire(), A_RECORD)).flags & dns.flags.AD, "the upstream didn't say so"

    def test_negative_answers(self) -> None:
        asked = upstream_query(QUESTION, IDENT, 0)
        response = answer(asked, rcode=dns.rcode.NXDOMAIN)
        soa = "ns.example.org. host.example.org. 1 2 3 4 5"
        response.authority.append(dns.rrset.from_text("example.org.", 5, "IN", "SOA", soa))
        responder = forwarding()
        errand = asked_for(responder, make_query(NAME, recurse=True))
        message = read(
            responder.finish_relayed(errand, relayed_body(errand, read_upstream_response(asked, response.to_wire())))
        )
        assert message.rcode() == dns.rcode.NXDOMAIN
        assert short(message.authority) == [("example.org.", "SOA", soa)]

    @pytest.mark.parametrize(
        ("said", "told"),
        [
            (dns.rcode.SERVFAIL, dns.rcode.SERVFAIL),
            (dns.rcode.REFUSED, dns.rcode.REFUSED),
            (dns.rcode.NOTIMP, dns.rcode.NOTIMP),
            (dns.rcode.FORMERR, dns.rcode.SERVFAIL),
            (dns.rcode.BADVERS, dns.rcode.SERVFAIL),
            (dns.rcode.NOTAUTH, dns.rcode.SERVFAIL),
        ],
    )
    def test_failures(self, said: dns.rcode.Rcode, told: dns.rcode.Rcode) -> None:
        message = read(relayed(make_query(NAME, recurse=True, payload=1232), A_RECORD, rcode=said))
        assert message.rcode() == told
        assert message.flags & dns.flags.RA
        assert not message.answer

    def test_nobody_heard(self) -> None:
        responder = forwarding()
        errand = asked_for(responder, make_query(NAME, recurse=True))
        assert read(responder.finish_relayed(errand, relayed_body(errand, None))).rcode() == dns.rcode.SERVFAIL

    @pytest.mark.parametrize(
        ("payload", "whole"), [(None, 512), (0, 512), (512, 512), (1000, 1000), (1232, 1232), (65535, 1232)]
    )
    @pytest.mark.parametrize("size", [300, 505, 900, 1100, 1210, 3000])
    def test_as_long_as_the_client_and_we_take(self, payload: int | None, whole: int, size: int) -> None:
        query = make_query(NAME, "TXT", recurse=True, payload=payload)
        text = " ".join(['"' + "x" * 99 + '"'] * (size // 100) + ['"' + "y" * (size % 100) + '"'])
        for transport in (UDP, TCP):
            responder = forwarding()
            errand = asked_for(responder, query, transport)
            asked = upstream_query(upstream_question(errand), IDENT, 0)
            wire = responder.finish_relayed(errand, relayed_body(errand, heard(asked, f"{NAME}. 60 IN TXT {text}")))
            message = read(wire)
            needed = len(query) + 12 + size + 1
            assert bool(message.flags & dns.flags.TC) is (transport == UDP and needed > whole)
            assert len(wire) == (len(query) if message.flags & dns.flags.TC else needed)
            assert message.rcode() == dns.rcode.NOERROR

    @given(st.data())
    def test_whatever_an_upstream_says_the_client_gets_a_whole_message(self, data: st.DataObject) -> None:
        query = make_query("wWw.example.org", recurse=True, payload=data.draw(st.sampled_from((None, 512, 1232))))
        said = bytearray(answer(ASKED, A_RECORD, f"{NAME}. 5 IN TXT {'x' * 200} {'y' * 250}").to_wire())
        for _ in range(data.draw(st.integers(0, 3))):
            said[data.draw(st.integers(33, len(said) - 1))] = data.draw(st.integers(0, 255))
        for asking in (query, make_query("out.hobbit", recurse=True)):
            errand = asked_for(RESPONDER, asking)
            wire = RESPONDER.finish_relayed(errand, relayed_body(errand, read_upstream_response(ASKED, bytes(said))))
            assert wire[:2] == errand.query.id
            assert wire[12 : 12 + len(errand.query.question)] == errand.query.question
            assert len(wire) <= max(512, errand.query.edns.payload if errand.query.edns else 0)
            assert wire[2] & 0x80

    def test_it_is_counted(self) -> None:
        responder = forwarding()
        for transport, rcode in ((UDP, dns.rcode.NOERROR), (TCP, dns.rcode.NXDOMAIN), (TCP, dns.rcode.BADVERS)):
            errand = asked_for(responder, make_query(NAME, recurse=True), transport)
            asked = upstream_query(upstream_question(errand), IDENT, 0)
            responder.finish_relayed(errand, relayed_body(errand, heard(asked, rcode=rcode)))
        assert responder.table.queries() == {("", 1, "udp", 0): 1, ("", 1, "tcp", 3): 1, ("", 1, "tcp", 2): 1}


class TestAliasesThatLeadOut:
    """For ``out CNAME www.example.org.``, allowed clients that request recursion also receive the alias's target."""

    OUT: Final = ("out.hobbit.", "CNAME", "www.example.org.")

    def chased(self, query: bytes, *records: str, rcode: dns.rcode.Rcode = dns.rcode.NOERROR) -> dns.message.Message:
        return read(relayed(query, *records, rcode=rcode, flags=dns.flags.AD))

    def test_the_end_is_added(self) -> None:
        alias = f"{NAME}. 60 IN CNAME Cdn.example.net."
        message = self.chased(make_query("OUT.hobbit", recurse=True), alias, "Cdn.example.net. 7 IN A 192.0.2.81")
        assert lines(message.answer) == [
            ("OUT.hobbit.", "CNAME", 3600, "www.example.org."),
            ("www.example.org.", "CNAME", 60, "Cdn.example.net."),
            ("Cdn.example.net.", "A", 7, "192.0.2.81"),
        ]
        assert message.flags & (dns.flags.AA | dns.flags.RA) == dns.flags.AA | dns.flags.RA
        assert not message.flags & dns.flags.AD

    @pytest.mark.parametrize("rcode", [dns.rcode.NXDOMAIN, dns.rcode.NOERROR])
    def test_an_end_without_records(self, rcode: dns.rcode.Rcode) -> None:
        message = self.chased(make_query("out.hobbit", recurse=True), rcode=rcode)
        assert (message.rcode(), short(message.answer)) == (rcode, [self.OUT])

    def test_an_end_that_can_t_be_had(self) -> None:
        message = self.chased(make_query("out.hobbit", recurse=True), rcode=dns.rcode.SERVFAIL)
        assert (message.rcode(), message.answer) == (dns.rcode.SERVFAIL, [])

    def test_an_end_whose_pointers_lead_astray(self) -> None:
        responder = forwarding()
        errand = asked_for(responder, make_query("out.hobbit", recurse=True))
        asked = upstream_query(upstream_question(errand), IDENT, 0)
        wire = answer(asked, edns=False).to_wire()
        record = b"\xc0\x0c\0\5\0\1\0\0\0\1\0\2\xc0" + bytes((len(wire) + 12,))  # a CNAME to itself
        found = read_upstream_response(asked, wire[:6] + b"\0\1" + wire[8:] + record)
        assert found is not None
        assert read(responder.finish_relayed(errand, relayed_body(errand, found))).rcode() == dns.rcode.SERVFAIL

    @pytest.mark.parametrize(("recurse", "host"), [(False, INSIDE), (True, OUTSIDE), (False, OUTSIDE)])
    def test_for_others_it_stays_what_it_is(self, recurse: bool, host: tuple[str, int]) -> None:
        responder = forwarding()
        for payload in (None, 1232, None, 1232):  # asked again, and between those who get more
            asked_for(responder, make_query("out.hobbit", recurse=True, payload=payload))
            message = read(responder.respond(make_query("out.hobbit", recurse=recurse, payload=payload), host))
            assert short(message.answer) == [self.OUT]
            assert not message.flags & dns.flags.RA

    @pytest.mark.parametrize("rtype", ["CNAME", "ANY"])
    def test_who_asks_for_the_alias_gets_the_alias(self, rtype: str) -> None:
        for _ in range(2):
            response = forwarding().respond(make_query("out.hobbit", rtype, recurse=True), INSIDE)
            assert short(read(response).answer) == [self.OUT]

    @pytest.mark.parametrize("name", ["www.hobbit", "dangling.hobbit", "loop1.hobbit", "self.hobbit", "into.hobbit"])
    def test_aliases_that_stay(self, name: str) -> None:
        assert isinstance(forwarding().respond(make_query(name, recurse=True), INSIDE), bytes)

    def test_it_is_counted_with_its_zone(self) -> None:
        responder = forwarding()
        errand = asked_for(responder, make_query("out.hobbit", recurse=True))
        responder.finish_relayed(
            errand, relayed_body(errand, heard(upstream_query(upstream_question(errand), IDENT, 0)))
        )
        assert responder.table.queries() == {("hobbit", 1, "udp", 0): 1}
