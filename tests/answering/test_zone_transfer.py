"""Tests of zone transfers: transfers that dnspython reads record by record, and refused transfers."""

from __future__ import annotations

import ipaddress
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.tsig
import dns.xfr
import dns.zone
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.dns_constants import TRANSPORTS
from lbdns.answering.query_reader import read_query
from lbdns.answering.responder import Responder
from lbdns.answering.zone_transfer import (
    MESSAGE_SIZE,
    POOL_TTL,
    TransferError,
    ZoneTransfer,
    content,
    is_ahead,
    is_permitted,
    messages,
    pools_of,
)
from lbdns.config import TransferPermit
from lbdns.zones import names
from lbdns.zones.master_file import RRset
from tests.answering import secondaries
from tests.answering.asking import TCP, UDP, read
from tests.answering.farms import HOBBIT, hobbit, make_farm, pool
from tests.answering.secondaries import (
    EVERYBODY,
    KEY,
    dns_key,
    hobbit_responder,
    query_for,
    responder_for,
    with_secondaries,
)

ORIGIN = b"\6hobbit\0"
CLIENT = ("192.0.2.9", 5353)


def transfer(responder: Responder, query: dns.message.Message) -> Iterator[bytes]:
    """Return the messages of a granted transfer."""
    found = responder.respond(query.to_wire(), CLIENT, TCP)
    assert isinstance(found, ZoneTransfer)
    return found.messages


def copy_of(wires: list[bytes], query: dns.message.Message) -> dns.zone.Zone:
    """Return the zone that dnspython's secondary builds from the messages, with signatures verified."""
    zone = dns.zone.Zone(query.question[0].name, relativize=False)
    context = None
    serial = query.authority[0][0].to_text().split()[2] if query.authority else None
    rtype = query.question[0].rdtype
    with dns.xfr.Inbound(zone, rtype, serial=int(serial) if serial else None) as inbound:
        for i, wire in enumerate(wires):
            message = dns.message.from_wire(
                wire, keyring=query.keyring, request_mac=query.mac, xfr=True, tsig_ctx=context, multi=True,
                one_rr_per_rrset=True,
            )  # fmt: skip
            assert message.flags & dns.flags.AA
            assert message.had_tsig == (query.keyring is not None)
            context = message.tsig_ctx
            assert inbound.process_message(message) == (i == len(wires) - 1)
    return zone


def hobbit_copy(query: dns.message.Message | None = None, responder: Responder | None = None) -> dns.zone.Zone:
    query = query or query_for()
    return copy_of(list(transfer(responder or hobbit_responder(), query)), query)


def rdatas(zone: dns.zone.Zone, name: str, rtype: str) -> tuple[int, set[str]]:
    """Return the TTL and data of an RRset in the copied zone."""
    rdataset = zone.find_rdataset(dns.name.from_text(name), rtype)
    return rdataset.ttl, {rdata.to_text() for rdata in rdataset}


# What is in it


@pytest.mark.parametrize("name", ["best.hobbit", "round.robin.hobbit", "weighted.hobbit"])
def test_names_of_a_pool_hold_the_addresses_of_all_members(name: str) -> None:
    zone = hobbit_copy()
    assert rdatas(zone, name, "A") == (30, {"127.0.0.16", "127.0.0.17", "127.0.0.18", "127.0.0.19"})
    assert rdatas(zone, name, "AAAA") == (30, {"::17", "::18", "::19"})
    node = zone.find_node(dns.name.from_text(name))
    assert {dns.rdatatype.to_text(rdataset.rdtype) for rdataset in node} == {"A", "AAAA"}


def test_everything_else_is_as_in_the_file() -> None:
    farm = hobbit()
    copied = hobbit_copy(responder=responder_for(with_secondaries(farm)))
    plain = make_farm({"hobbit": HOBBIT}).zones[ORIGIN]
    pool_names = {dns.name.from_text(f"{name}.hobbit") for name in ("best", "round.robin", "weighted")}
    found = {
        (owner.to_wire(), int(rdataset.rdtype), rdataset.ttl, rdata.to_wire())
        for owner, rdataset in copied.iterate_rdatasets()
        for rdata in rdataset
        if owner not in pool_names
    }
    assert found == {
        (owner, rtype, rrset.ttl, rdata)
        for owner, node in plain.nodes.items()
        for rtype, rrset in node.items()
        for rdata in rrset.rdatas
    }


def test_addresses_at_a_name_with_other_records_and_at_the_apex() -> None:
    more = "extra MX 10 mail\n"
    pools = (
        pool("one", names={"extra": "best", "@": "weighted"}, answer="address", ttl=0),
        pool("two", members=("bilbo",), names={"two": "best"}, ttl=5),
    )
    zone = hobbit_copy(responder=responder_for(with_secondaries(hobbit(*pools, more=more))))
    for name in ("extra.hobbit", "hobbit"):
        assert rdatas(zone, name, "A") == (POOL_TTL, {"127.0.0.16", "127.0.0.17", "127.0.0.18", "127.0.0.19"})
        assert rdatas(zone, name, "MX") == (3600, {"10 mail.hobbit."})
    assert rdatas(zone, "two.hobbit", "A") == (POOL_TTL, {"127.0.0.16"})
    assert zone.get_rdataset(dns.name.from_text("two.hobbit"), "AAAA") is None


def test_an_address_of_two_members_is_there_once() -> None:
    farm = hobbit(pool(members=("bilbo", "twin")), more="twin A 127.0.0.16\n")
    found = [r for r in content(farm.zones[ORIGIN], farm.pools) if r.owner == b"\4best\6hobbit\0"]
    assert [(r.rtype, r.ttl, r.rdata) for r in found] == [(1, 30, b"\x7f\0\0\x10")]


def test_only_the_pools_of_the_zone() -> None:
    farm = make_farm({"hobbit": HOBBIT, "orc": HOBBIT}, [pool(), pool("other", zone="orc", names={"uruk": "best"})])
    responder = responder_for(with_secondaries(farm))
    zone = hobbit_copy(query_for("orc"), responder)
    assert rdatas(zone, "uruk.orc", "A")[0] == POOL_TTL
    assert zone.get_node(dns.name.from_text("best.orc")) is None
    assert hobbit_copy(query_for("hobbit"), responder).get_node(dns.name.from_text("uruk.hobbit")) is None


def test_names_keep_the_case_of_the_file() -> None:
    responder = responder_for(with_secondaries(hobbit(more="UPPER MX 5 Mail.HOBBIT.\nb MX 5 mail.hobbit.\n")))
    text = b"".join(transfer(responder, query_for("HobBit")))
    assert b"\4Mail\6HOBBIT" in text, "compressed case by case (RFC 5936 section 3.4)"
    zone = hobbit_copy(query_for("HobBit"), responder)
    assert rdatas(zone, "upper.hobbit", "MX")[1] == {"5 Mail.HOBBIT."}


# How it is sent


def large(count: int) -> Responder:
    """Return a responder for a zone with ``count`` additional names, added directly because parsing text is slow."""
    farm = with_secondaries(secondaries.HOBBIT)
    zone = farm.zones[ORIGIN]
    more = {names.from_text(f"n{i}.hobbit"): {1: RRset(3600, (b"\x0a" + i.to_bytes(3, "big"),))} for i in range(count)}
    zones = {**farm.zones, ORIGIN: replace(zone, nodes={**zone.nodes, **more})}
    return responder_for(replace(farm, zones=zones))


@pytest.mark.parametrize("key", [None, dns_key()], ids=["unsigned", "signed"])
def test_a_large_zone_in_several_messages(key: dns.tsig.Key | None) -> None:
    query = query_for(key=key, payload=1232)
    wires = list(transfer(large(5000), query))
    assert len(wires) > 3
    assert all(wire[:2] == query.id.to_bytes(2, "big") for wire in wires)
    assert all(MESSAGE_SIZE / 2 < len(wire) <= MESSAGE_SIZE + 200 for wire in wires[:-1])
    zone = copy_of(wires, query)
    assert rdatas(zone, "n4999.hobbit", "A") == (3600, {"10.0.19.135"})
    soas = [rrset for wire in wires for rrset in read_plain(wire).answer if rrset.rdtype == dns.rdatatype.SOA]
    assert len(soas) == 2


def read_plain(wire: bytes) -> dns.message.Message:
    return dns.message.from_wire(wire, keyring=lambda *_: False, one_rr_per_rrset=True)


def test_every_message_is_bound_to_the_one_before() -> None:
    query = query_for(key=dns_key())
    wires = list(transfer(large(3000), query))
    with pytest.raises(dns.tsig.BadSignature):
        copy_of([wires[0], *wires[2:]], query)


def test_each_message_is_signed_at_its_time() -> None:
    responder = large(3000)
    wires = transfer(responder, query_for(key=dns_key()))
    first = read_plain(next(wires)).tsig
    responder.tick(100.0, time.time() + 1000)
    second = read_plain(next(wires)).tsig
    assert first is not None
    assert second is not None
    assert 999 <= second[0].time_signed - first[0].time_signed <= 1002


def test_messages_are_made_one_by_one() -> None:
    responder = large(20_000)
    zone = responder.table.farm.zones[ORIGIN]
    query = read_query(query_for().to_wire())
    assert query is not None
    tracemalloc.start()
    try:
        total = sum(len(wire) for wire in messages(query, zone, responder.table.farm.pools))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total > 400_000
    assert peak < 1_500_000, "a message and the names in it, not the zone"


def test_a_reload_on_the_way_changes_nothing() -> None:
    responder = large(3000)
    query = query_for()
    wires = transfer(responder, query)
    begun = [next(wires)]
    responder.use(hobbit_responder().table)
    zone = copy_of([*begun, *wires], query)
    assert zone.get_node(dns.name.from_text("n2999.hobbit")) is not None


def long_record(strings: int) -> str:
    """Return a TXT record with so many strings, each of 251 octets."""
    return "a TXT " + " ".join(['"' + "x" * 250 + '"'] * strings) + "\n"


@pytest.mark.parametrize(("strings", "key"), [(261, None), (260, dns_key())])
def test_a_record_that_fits_no_message_is_an_error_and_no_end(strings: int, key: dns.tsig.Key | None) -> None:
    messages = transfer(responder_for(with_secondaries(hobbit(more=long_record(strings)))), query_for(key=key))
    wires: list[bytes] = []
    reason = rf"the TXT record of a\.hobbit \({strings * 251} octets\) does not fit into a message"
    with pytest.raises(TransferError, match=f"^{reason}$"):
        wires.extend(messages)  # keeps the messages before the error
    assert read_plain(wires[-1]).rcode() == dns.rcode.SERVFAIL
    assert sum(rrset.rdtype == dns.rdatatype.SOA for w in wires for rrset in read_plain(w).answer) == 1


@pytest.mark.parametrize(("strings", "key"), [(260, None), (258, dns_key())])
def test_a_record_that_fits_a_response_also_fits_a_transfer(strings: int, key: dns.tsig.Key | None) -> None:
    zone = hobbit_copy(query_for(key=key), responder_for(with_secondaries(hobbit(more=long_record(strings)))))
    assert len(rdatas(zone, "a.hobbit", "TXT")[1].pop()) > strings * 250


def test_a_record_that_has_a_message_for_itself() -> None:
    long = "a TXT " + " ".join(['"' + "x" * 250 + '"'] * 200) + "\n"
    query = query_for(key=dns_key())
    zone = hobbit_copy(query, responder_for(with_secondaries(hobbit(more=long))))
    assert len(rdatas(zone, "a.hobbit", "TXT")[1].pop()) > 200 * 250


# IXFR (RFC 1995)


@pytest.mark.parametrize("serial", [7, 8, 2**31 + 6])
def test_ixfr_of_who_is_up_to_date_is_the_soa_alone(serial: int) -> None:
    for transport in (UDP, TCP):
        response = read(hobbit_responder().respond(query_for(rtype="IXFR", serial=serial).to_wire(), CLIENT, transport))
        (soa,) = response.answer
        assert (soa.rdtype, soa[0].serial) == (dns.rdatatype.SOA, 7)


@pytest.mark.parametrize("serial", [6, 0, 2**31 + 8, 2**32 - 1])
def test_ixfr_of_who_is_behind_is_the_whole_zone(serial: int) -> None:
    zone = hobbit_copy(query_for(rtype="IXFR", serial=serial, key=dns_key()))
    assert rdatas(zone, "best.hobbit", "A")[0] == POOL_TTL
    response = read(hobbit_responder().respond(query_for(rtype="IXFR", serial=serial).to_wire(), CLIENT, UDP))
    assert [rrset[0].serial for rrset in response.answer] == [7], "over UDP: come over TCP"


def test_ixfr_without_a_serial_is_malformed() -> None:
    query = query_for(rtype="IXFR").to_wire()
    assert read(hobbit_responder().respond(query, CLIENT, TCP)).rcode() == dns.rcode.FORMERR


@pytest.mark.parametrize("octets", [b"", b"\0\0\6\0\1\0\0\0\0\0\2\0\0", b"\0\0\1\0\1\0\0\0\0\0\x16" + bytes(22)])
def test_ixfr_with_an_soa_that_is_none(octets: bytes) -> None:
    query = query_for(rtype="IXFR").to_wire()
    query = query[:9] + b"\1" + query[10:] + octets
    assert read(hobbit_responder().respond(query, CLIENT, TCP)).rcode() == dns.rcode.FORMERR


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**31 - 1))
def test_serials_count_round(serial: int, step: int) -> None:
    assert is_ahead((serial + step) % 2**32, serial)
    assert not is_ahead(serial, (serial + step) % 2**32)
    assert not is_ahead(serial, serial)
    assert not is_ahead((serial + 2**31) % 2**32, serial)


# Who gets none


def rcode(responder: Responder, query: dns.message.Message, transport: int = TCP) -> dns.rcode.Rcode:
    return read_plain(_bytes(responder.respond(query.to_wire(), CLIENT, transport))).rcode()


def _bytes(response: object) -> bytes:
    assert isinstance(response, bytes)
    return response


@pytest.mark.parametrize("rtype", ["AXFR", "IXFR"])
def test_nobody_without_permits(rtype: str) -> None:
    responder = hobbit_responder(transfer=())
    for key in (None, dns_key()):
        for transport in (UDP, TCP):
            query = query_for(rtype=rtype, serial=1 if rtype == "IXFR" else None, key=key)
            assert rcode(responder, query, transport) == dns.rcode.REFUSED


def test_nothing_that_is_no_zone_of_ours() -> None:
    assert rcode(hobbit_responder(), query_for("bilbo.hobbit")) == dns.rcode.NOTAUTH
    assert rcode(hobbit_responder(), query_for("orc")) == dns.rcode.REFUSED
    assert rcode(hobbit_responder(transfer=()), query_for("bilbo.hobbit")) == dns.rcode.REFUSED


def test_not_over_udp() -> None:
    assert rcode(hobbit_responder(), query_for(), UDP) == dns.rcode.REFUSED


def test_not_in_another_class() -> None:
    wire = query_for().to_wire()
    assert read(hobbit_responder().respond(wire[:-1] + b"\3", CLIENT, TCP)).rcode() == dns.rcode.REFUSED


def test_whoever_signs_wrongly_gets_nothing_wherever_it_comes_from() -> None:
    key = dns.tsig.Key("secondary.", b"wrong", "hmac-sha256.")
    assert rcode(hobbit_responder(EVERYBODY), query_for(key=key)) == dns.rcode.NOTAUTH


def test_refusals_and_transfers_are_counted() -> None:
    responder = hobbit_responder([TransferPermit(None, "secondary")])
    rcode(responder, query_for())
    rcode(responder, query_for(), UDP)
    list(transfer(responder, query_for(key=dns_key())))
    tcp, udp, axfr = TRANSPORTS[TCP], TRANSPORTS[UDP], int(dns.rdatatype.AXFR)
    assert responder.table.queries() == {
        ("hobbit", axfr, tcp, 5): 1,
        ("hobbit", axfr, udp, 5): 1,
        ("hobbit", axfr, tcp, 0): 1,
    }


TEN = ipaddress.ip_network("10.0.0.0/8")
SIX = ipaddress.ip_network("2001:db8::/32")


@pytest.mark.parametrize(
    ("permits", "host", "key", "expected"),
    [
        ([], "10.0.0.1", "secondary", False),
        ([TransferPermit(TEN)], "10.255.0.1", "", True),
        ([TransferPermit(TEN)], "11.0.0.1", "secondary", False),
        ([TransferPermit(TEN)], "2001:db8::1", "", False),
        ([TransferPermit(SIX)], "2001:db8::1%eth0", "", True),
        ([TransferPermit(None, "secondary")], "203.0.113.1", "secondary", True),
        ([TransferPermit(None, "secondary")], "203.0.113.1", "", False),
        ([TransferPermit(None, "secondary")], "203.0.113.1", "other", False),
        ([TransferPermit(TEN, "secondary")], "10.0.0.1", "secondary", True),
        ([TransferPermit(TEN, "secondary")], "10.0.0.1", "", False),
        ([TransferPermit(TEN, "secondary")], "11.0.0.1", "secondary", False),
        ([TransferPermit(SIX), TransferPermit(None, "other"), TransferPermit(TEN)], "10.0.0.1", "", True),
    ],
)
def test_permits(permits: list[TransferPermit], host: str, key: str, expected: bool) -> None:
    assert is_permitted(permits, host, key) == expected


def test_the_key_of_a_permit_is_the_one_that_signed() -> None:
    responder = hobbit_responder([TransferPermit(None, KEY.name)])
    assert rcode(responder, query_for()) == dns.rcode.REFUSED
    hobbit_copy(query_for(key=dns_key()), responder)


def test_pools_of_a_zone() -> None:
    farm = hobbit(pool(), pool("two", names={"two": "best"}))
    assert [p.name for p in pools_of(farm, farm.zones[ORIGIN])] == ["web", "two"]
    assert pools_of(farm, next(z for z in farm.zones.values() if z.name != "hobbit")) == ()
