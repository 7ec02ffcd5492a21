"""Tests of master files as specified in RFC 1035, section 5, and in later RFCs."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from lbdns.zones import names, zone_records
from lbdns.zones.master_file import AAAA, A, RRset, parse_zone
from lbdns_shared.errors import ZoneFileError
from tests.answering.asking import TCP, client, make_query, make_responder
from tests.answering.farms import make_farm
from tests.zones.made_up_zones import CNAME, HEAD, MX, NS, PTR, TXT, rrset, zone


class TestHead:
    def test_soa_serial_and_apex(self) -> None:
        found = zone("")
        assert (found.name, found.origin, found.serial) == ("hobbit", b"\6hobbit\0", 7)
        numbers = struct.pack("!5I", 7, 3600, 900, 604800, 60)
        assert found.soa == RRset(300, (b"\2ns\6hobbit\0\x0ahostmaster\6hobbit\0" + numbers,))
        assert rrset(found, "hobbit", NS) == RRset(300, (b"\2ns\6hobbit\0",))
        assert found.warnings == ()

    def test_the_root_zone(self) -> None:
        found = zone("gandalf A 192.0.2.1\n", name="")
        assert found.origin == b"\0"
        assert rrset(found, "gandalf", A).rdatas == (socket.inet_aton("192.0.2.1"),)

    def test_a_reverse_zone(self) -> None:
        found = zone("16 PTR bilbo.hobbit.\n", name="0.0.127.in-addr.arpa")
        assert rrset(found, "16.0.0.127.in-addr.arpa", PTR).rdatas == (b"\5bilbo\6hobbit\0",)


class TestRecords:
    @pytest.mark.parametrize(
        ("line", "owner", "ttl"),
        [
            ("gandalf A 192.0.2.1", "gandalf.hobbit", 300),
            ("gandalf IN A 192.0.2.1", "gandalf.hobbit", 300),
            ("gandalf 5 IN A 192.0.2.1", "gandalf.hobbit", 5),
            ("gandalf IN 5 A 192.0.2.1", "gandalf.hobbit", 5),
            ("gandalf 1h30m A 192.0.2.1", "gandalf.hobbit", 5400),
            ("GANDALF.Hobbit. A 192.0.2.1", "gandalf.hobbit", 300),
            ("gandalf.hobbit A 192.0.2.1", "gandalf.hobbit.hobbit", 300),
            ("*.web A 192.0.2.1", "*.web.hobbit", 300),
            ("$ORIGIN deep.hobbit.\ngandalf A 192.0.2.1", "gandalf.deep.hobbit", 300),
            ("$ORIGIN deep\ngandalf A 192.0.2.1", "gandalf.deep.hobbit", 300),
            ("$TTL 20\ngandalf A 192.0.2.1", "gandalf.hobbit", 20),
            ("gandalf A ( 192.0.2.1\n ) ; a comment", "gandalf.hobbit", 300),
        ],
    )
    def test_owners_and_ttls(self, line: str, owner: str, ttl: int) -> None:
        node = {name: rrsets for name, rrsets in zone(line + "\n").nodes.items() if rrsets.get(A)}
        assert node[names.from_text(owner) if "*" not in owner else b"\1*\3web\6hobbit\0"][A] == RRset(
            ttl, (socket.inet_aton("192.0.2.1"),)
        )

    def test_no_owner_is_the_last_one(self) -> None:
        found = zone("gandalf A 192.0.2.1\n  A 192.0.2.2\n\tAAAA 2001:db8::1\n")
        assert len(rrset(found, "gandalf.hobbit", A).rdatas) == 2
        assert rrset(found, "gandalf.hobbit", AAAA).rdatas == (socket.inet_pton(socket.AF_INET6, "2001:db8::1"),)

    def test_an_soa_over_several_lines_with_comments(self) -> None:
        text = "@ 60 IN SOA ns hostmaster (\n 42 ; serial\n 1h 15m ; ...\n 1w\n 5m )\n NS ns\nns A 127.0.0.1\n"
        assert parse_zone("hobbit", text, Path("x")).serial == 42

    def test_escapes(self) -> None:
        found = zone(r"a\.b A 192.0.2.1" "\n" r'text TXT "say \"friend\"" "\195\164;"' "\n")
        assert found.nodes[b"\3a.b\6hobbit\0"][A].ttl == 300
        rdata = rrset(found, "text.hobbit", TXT).rdatas[0]
        assert rdata == b'\x0csay "friend"\3\xc3\xa4;'

    def test_an_unknown_type_as_rfc_3597_writes_it(self) -> None:
        found = zone("odd TYPE65400 \\# 4 0A0B 0C0D\nknown TYPE1 \\# 4 C0000201\n")
        assert rrset(found, "odd.hobbit", 65400).rdatas == (b"\x0a\x0b\x0c\x0d",)
        assert rrset(found, "known.hobbit", A).rdatas == (socket.inet_aton("192.0.2.1"),)

    @pytest.mark.parametrize(
        ("record", "rtype"),
        [("MX 10 mail", MX), ("CNAME gandalf", CNAME), ("SRV 0 0 80 gandalf", 33), ('CAA 0 issue "x"', 257),
         ("HTTPS 1 . alpn=h2", 65), ("DS 1 13 2 " + "00" * 32, 43), ("SSHFP 1 1 " + "00" * 20, 44)],
    )  # fmt: skip
    def test_other_types_are_served_too(self, record: str, rtype: int) -> None:
        assert set(zone(f"x {record}\n").nodes[names.from_text("x.hobbit")]) == {rtype}

    def test_names_in_rdata_are_whole(self) -> None:
        assert rrset(zone("x MX 10 mail\n"), "x.hobbit", MX).rdatas == (b"\0\x0a\4mail\6hobbit\0",)

    def test_signatures_of_several_types_are_one_rrset(self) -> None:
        signature = "x RRSIG {} 13 2 {} 20300101000000 20200101000000 1 hobbit. AAAA\n"
        found = rrset(zone(signature.format("A", 300) + signature.format("AAAA", 300)), "x.hobbit", 46)
        assert len(found.rdatas) == 2

    def test_a_record_said_twice_is_one(self) -> None:
        found = zone("a CNAME b\na CNAME b\nc A 192.0.2.1\nc A 192.0.2.1\n")
        assert rrset(found, "a.hobbit", CNAME).rdatas == (b"\1b\6hobbit\0",)
        assert len(rrset(found, "c.hobbit", A).rdatas) == 1

    def test_as_many_records_of_a_name_and_type_as_a_message_has_room_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(zone_records, "MAX_RECORDS", 50)
        assert len(rrset(zone("$GENERATE 1-50 a TXT $\n"), "a.hobbit", TXT).rdatas) == 50
        with pytest.raises(
            ZoneFileError, match=r"^hobbit\.zone:5: zone hobbit: a name may have at most 50 TXT records"
        ):
            zone("$GENERATE 1-51 a TXT $\n")

    def test_generate(self) -> None:
        found = zone("$GENERATE 1-5/2 web${0,2} A 192.0.2.$\n")
        owners = sorted(names.to_text(owner) for owner in found.nodes if owner.startswith(b"\5web"))
        assert owners == ["web01.hobbit", "web03.hobbit", "web05.hobbit"]
        assert rrset(found, "web05.hobbit", A).rdatas == (socket.inet_aton("192.0.2.5"),)

    def test_what_is_outside_is_a_warning_with_its_line(self) -> None:
        found = zone("gandalf A 192.0.2.1\ngandalf.orc. A 192.0.2.1\n")
        assert found.warnings == ("hobbit.zone:6: gandalf.orc.: lies outside the zone and is ignored",)
        assert names.from_text("gandalf.orc") not in found.nodes

    @pytest.mark.parametrize(
        ("lengths", "fits"),
        [([[255] * 255 + [200]], True), ([[255] * 255 + [254]], False), ([[250]] * 249, True), ([[250]] * 250, False)],
        ids=["a long record", "a longer record", "many records", "more records"],
    )
    def test_records_that_fit_no_message_are_a_warning(self, lengths: list[list[int]], fits: bool) -> None:
        body = "".join(f"a TXT {' '.join(f'{i:0{n}}' for n in one)}\n" for i, one in enumerate(lengths))
        responder = make_responder(make_farm({"hobbit": HEAD + body}))
        response = responder.respond(make_query("a.hobbit", "TXT", payload=512), client(), TCP)
        assert isinstance(response, bytes)
        assert bool(response[2] & 0x02) != fits
        warning = (
            "hobbit.zone: zone hobbit: the TXT records of a.hobbit do not fit into a DNS message, so lbdns can only"
        )
        assert zone(body).warnings == (() if fits else (f"{warning} send truncated answers",))

    SIGNED = """
@ RRSIG SOA 13 1 300 20300101000000 20200101000000 1 hobbit. AAAA
www CNAME gandalf
www RRSIG CNAME 13 2 300 20300101000000 20200101000000 1 hobbit. AAAA
www NSEC hobbit. CNAME RRSIG NSEC
www RRSIG NSEC 13 2 300 20300101000000 20200101000000 1 hobbit. AAAA
"""

    @pytest.mark.parametrize("line", ["", "@ DNSKEY 257 3 13 AAAA\n", "@ NSEC3PARAM 1 0 0 -\n"])
    def test_a_signed_zone_is_read_with_a_warning(self, line: str) -> None:
        found = zone(self.SIGNED + line)
        assert set(found.nodes[names.from_text("www.hobbit")]) == {CNAME, 46, 47}
        (warning,) = found.warnings
        assert warning == (
            "hobbit.zone: zone hobbit: the zone is signed (DNSSEC), but lbdns sends no signatures. If the parent zone "
            "contains DS records for this zone, remove them: otherwise, validating resolvers reject every answer"
        )

    def test_keys_alone_are_a_signed_zone_too_but_not_the_ds_records_of_delegations(self) -> None:
        assert zone("@ DNSKEY 257 3 13 AAAA\n").warnings
        assert not zone("sub NS ns.sub\nsub DS 1 13 2 " + "00" * 32 + "\n").warnings
