"""Tests of master files as specified in RFC 1035, section 5, and in later RFCs, and of every possible error."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.zones import master_file, names, zone_records
from lbdns.zones.master_file import AAAA, SOA, A, RRset, Zone, parse_zone, read_zone
from lbdns_shared.errors import ZoneFileError
from tests.answering.asking import TCP, client, make_query, make_responder
from tests.answering.farms import make_farm

NS, CNAME, PTR, MX, TXT = 2, 5, 12, 15, 16
HEAD = "$TTL 300\n@ SOA ns hostmaster 7 3600 900 604800 60\n@ NS ns\nns A 127.0.0.1\n"


def zone(body: str, name: str = "hobbit", path: Path = Path("hobbit.zone")) -> Zone:
    return parse_zone(name, HEAD + body, path)


def rrset(found: Zone, owner: str, rtype: int) -> RRset:
    return found.nodes[names.from_text(owner)][rtype]


def text_of(found: RRset) -> list[bytes]:
    """Return the strings in the TXT records."""
    return [rdata[1 : 1 + rdata[0]] for rdata in found.rdatas]


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
            "hobbit.zone: zone hobbit: the zone is signed (DNSSEC), but lbdns sends no signatures: if the parent zone "
            "contains DS records for this zone, validating resolvers reject every answer; remove the DS records"
        )

    def test_keys_alone_are_a_signed_zone_too_but_not_the_ds_records_of_delegations(self) -> None:
        assert zone("@ DNSKEY 257 3 13 AAAA\n").warnings
        assert not zone("sub NS ns.sub\nsub DS 1 13 2 " + "00" * 32 + "\n").warnings


class TestInclude:
    def write(self, folder: Path, files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder / "hobbit.zone"

    def test_it_is_relative_to_its_own_file_and_nests(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path,
            {
                "hobbit.zone": HEAD + "$INCLUDE parts/hosts ; all of them\nlast A 192.0.2.9\n",
                "parts/hosts": "gandalf A 192.0.2.1\n$INCLUDE more/others deep\nfrodo A 192.0.2.2\n",
                "parts/more/others": "bilbo A 192.0.2.3\n",
            },
        )
        found = read_zone("hobbit", path)
        for owner in ("gandalf.hobbit", "frodo.hobbit", "bilbo.deep.hobbit", "last.hobbit"):
            assert A in found.nodes[names.from_text(owner)]

    def test_quotes_and_absolute_paths(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path,
            {
                "hobbit.zone": HEAD + f'$INCLUDE "with space"\n$include {tmp_path}/hosts\n',
                "with space": "gandalf A 192.0.2.1\n",
                "hosts": "frodo A 192.0.2.2\n",
            },
        )
        assert len(read_zone("hobbit", path).nodes) == 4

    def test_the_word_in_a_record_includes_nothing(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, {"hobbit.zone": HEAD + "text TXT $INCLUDE hosts\n"})
        rdata = rrset(read_zone("hobbit", path), "text.hobbit", TXT).rdatas[0]
        assert rdata == b"\x08$INCLUDE\5hosts"

    def test_an_error_names_the_included_file(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path, {"hobbit.zone": HEAD + "$INCLUDE sub/hosts\n", "sub/hosts": "a A 192.0.2.1\nb A 192.0.2\n"}
        )
        with pytest.raises(ZoneFileError) as caught:
            read_zone("hobbit", path)
        assert str(caught.value).startswith(f"{tmp_path}/sub/hosts:2: zone hobbit: ")

    def test_an_error_in_a_private_included_file_does_not_quote_the_file(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path, {"hobbit.zone": HEAD + "$INCLUDE report.key\n", "report.key": "; keys\nmaster c2VjcmV0\n"}
        )
        (tmp_path / "report.key").chmod(0o640)
        path.chmod(0o640)
        with pytest.raises(ZoneFileError) as caught:
            read_zone("hobbit", path)
        assert str(caught.value) == (
            f"{tmp_path}/report.key:2: zone hobbit: the line is not valid; "
            "the line's content is not shown because some users cannot read the file"
        )
        (tmp_path / "report.key").chmod(0o644)
        with pytest.raises(ZoneFileError, match="near 'c2VjcmV0'"):
            read_zone("hobbit", path)
        path.write_text(HEAD + "gandalf A 192.0.2.300\n")
        with pytest.raises(ZoneFileError, match=r"near '192\.0\.2\.300'"):
            read_zone("hobbit", path)  # the zone file itself is the operator's own

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, {"hobbit.zone": HEAD + "$INCLUDE nope\n"})
        with pytest.raises(ZoneFileError) as caught:
            read_zone("hobbit", path)
        assert str(caught.value) == f"{path}:5: zone hobbit: $INCLUDE {tmp_path}/nope: No such file or directory"

    def test_a_file_that_is_no_text(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, {"hobbit.zone": HEAD + "$INCLUDE hosts\n"})
        (tmp_path / "hosts").write_bytes(b"gand\xff\xfe A 192.0.2.1\n")
        with pytest.raises(ZoneFileError, match="utf-8"):
            read_zone("hobbit", path)

    @pytest.mark.parametrize("files", [{"hobbit.zone": "hobbit.zone"}, {"hobbit.zone": "a", "a": "b", "b": "a"}])
    def test_a_ring_of_files(self, tmp_path: Path, files: Mapping[str, str]) -> None:
        texts = {name: f"{name[0]} 1 A 192.0.2.1\n$INCLUDE {other}\n" for name, other in files.items()}
        with pytest.raises(
            ZoneFileError, match=r"\$INCLUDE is nested more than 16 levels deep; check that no file includes itself"
        ):
            read_zone("hobbit", self.write(tmp_path, texts))

    def test_many_side_by_side_are_no_ring(self, tmp_path: Path) -> None:
        files = {"hobbit.zone": HEAD + "$INCLUDE hosts\n" * 40, "hosts": "gandalf A 192.0.2.1\n"}
        assert len(read_zone("hobbit", self.write(tmp_path, files)).nodes) == 3

    def test_files_that_include_each_other_many_times_are_given_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(master_file, "MAX_INCLUDED", 100)
        # Each includes the next one ten times: 10 + 100 + 1000
        files = {"hobbit.zone": HEAD + "$INCLUDE b\n" * 10, "b": "$INCLUDE c\n" * 10, "c": "$INCLUDE d\n" * 10, "d": ""}
        with pytest.raises(
            ZoneFileError, match=r"[bc]:\d+: zone hobbit: \$INCLUDE directives read more than 100 files"
        ):
            read_zone("hobbit", self.write(tmp_path, files))
        assert read_zone("hobbit", self.write(tmp_path, {**files, "b": ""})).serial == 7

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        path = self.write(tmp_path, {"hobbit.zone": HEAD + "$INCLUDE pipe\n"})
        with pytest.raises(
            ZoneFileError, match=r"hobbit.zone:5: zone hobbit: \$INCLUDE .*pipe: must be a regular file"
        ):
            read_zone("hobbit", path)
        with pytest.raises(ZoneFileError, match=r"pipe: zone hobbit: must be a regular file"):
            read_zone("hobbit", tmp_path / "pipe")


#: What is wrong, the whole file, what is said of it
WRONG: list[tuple[str, str, str]] = [
    (
        "nothing in it",
        "",
        r"^x: zone hobbit: the file must have an SOA record at hobbit\. Is this the file of another zone\?",
    ),
    (
        "another zone's",
        "$ORIGIN orc.\n@ 1 SOA ns h 1 2 3 4 5\n@ 1 NS ns\n",
        r"^x: zone hobbit: the file must have an SOA record",
    ),
    ("no SOA", "@ 1 NS ns\n", r"^x: zone hobbit: the file must have an SOA record at hobbit\."),
    (
        "an SOA below the apex",
        HEAD + "b 1 SOA ns h 1 2 3 4 5\n",
        r"^x:5: zone hobbit: an SOA record must be at the apex of its zone",
    ),
    (
        "no NS",
        "@ 1 SOA ns h 1 2 3 4 5\n",
        r"^x: zone hobbit: the file must have an NS record at hobbit that names this server\.",
    ),
    (
        "two SOA",
        HEAD + "@ SOA ns hostmaster 8 3600 900 604800 60\n",
        r"^x:5: zone hobbit: a second SOA record; a zone may have only one",
    ),
    ("no such type", HEAD + "gandalf AA 192.0.2.1\n", r"^x:5: zone hobbit: .*AA"),
    (
        "a line's end for a type",
        HEAD + "$GENERATE 1-2 a TXT\n",
        r"^x:5: zone hobbit: \$GENERATE must have a type and the data, near 'TXT'$",
    ),
    ("what a terminal obeys", HEAD + "a \033[2J\n", r"^x:5: zone hobbit: .*'\\x1b\[2J'"),
    ("a bad address", HEAD + "gandalf A 192.0.2\n", r"^x:5: zone hobbit: "),
    ("a bad IPv6 address", HEAD + "\n\ngandalf AAAA 192.0.2.1\n", r"^x:7: zone hobbit: "),
    ("too few fields", HEAD + "gandalf MX mail\n", r"^x:5: zone hobbit: "),
    ("too many fields", HEAD + "gandalf A 192.0.2.1 192.0.2.2\n", r"^x:5: zone hobbit: "),
    ("an open parenthesis", HEAD + "gandalf A (192.0.2.1\n", r"zone hobbit: "),
    ("an open quote", HEAD + 'gandalf TXT "hello\n', r"^x:[56]: zone hobbit: "),
    ("no generic data", "@ SOA ns h 1 2 3 4 5\n@ NS ns\nx TYPE1 zz\n", r"^x:3: zone hobbit: "),
    ("a bad TTL", HEAD + "$TTL soon\n", r"^x:5: zone hobbit: "),
    ("an unknown directive", HEAD + "$INCLUED x\n", r"^x:5: zone hobbit: "),
    ("a CNAME beside others", HEAD + "a A 192.0.2.1\na CNAME ns\n", r"^x:[56]: zone hobbit: "),
    ("a label too long", HEAD + "a" * 64 + " A 192.0.2.1\n", r"^x:5: zone hobbit: "),
    ("a name too long", HEAD + ".".join(["a" * 60] * 5) + " A 192.0.2.1\n", r"^x:5: zone hobbit: "),
    ("an empty label", HEAD + "a..b A 192.0.2.1\n", r"^x:5: zone hobbit: "),
    ("a text too long", HEAD + f"a TXT {'x' * 256}\n", r"^x:5: zone hobbit: "),
    ("unknown data of another length", HEAD + "a TYPE65400 \\# 3 00\n", r"^x:5: zone hobbit: "),
    (
        "a range too long",
        HEAD + "$GENERATE 1-1000000000 web$ A 192.0.2.1\n",
        r"^x:5: zone hobbit: \$GENERATE creates more than 1048576 records",
    ),
    *(
        (
            f"the range {text}",
            HEAD + f"$GENERATE {text} web$ A 192.0.2.1\n",
            r"^x:5: .*\$GENERATE creates more than 1048576 ",
        )
        for text in ("0-9999999999999999999", "0-000000000000000000001048576", "0-1/1048576/1", '"0-1048576"')
    ),
    (
        "ranges too long together",
        HEAD + "$GENERATE 1-2 web$ A 192.0.2.1\n$GENERATE 1-1048575 web$ A 192.0.2.1\n",
        r"^x:6: zone hobbit: \$GENERATE creates more than 1048576 records",
    ),
    ("a range upside down", HEAD + "$GENERATE 5-1 web$ A 192.0.2.1\n", r"^x:5: zone hobbit: "),
    (
        "two CNAMEs",
        HEAD + "a CNAME b\na CNAME c\n",
        r"^x:6: zone hobbit: a second CNAME record; a name may have only one",
    ),
    (
        "two DNAMEs",
        HEAD + "a DNAME b\na DNAME c\n",
        r"^x:6: zone hobbit: a second DNAME record; a name may have only one",
    ),
    *(
        (f"{text}, which no record has", HEAD + f"a {text} \\# 0\n", r"^x:5: zone hobbit: .* is not a record type")
        for text in ("TYPE0", "OPT", "TYPE41", "TYPE128", "TYPE252", "TYPE255")
    ),
    (
        "a TTL of 32 bits",
        HEAD + "a 2147483648 A 192.0.2.1\n",
        r"^x:5: zone hobbit: the TTL must be at most 2147483647 s, not 2147483648 s",
    ),
    (
        "a record longer than a message",
        HEAD + "a TXT" + f" {'x' * 255}" * 256 + "\n",
        r"^x:5: zone hobbit: a record must have at most 65535 octets, not 65536",
    ),
    *(
        (f"a place {text} high", HEAD + f"a LOC 1 N 1 E {text}\n", r"^x:5: zone hobbit: .*infinity")
        for text in ("1e5000m", "infm")
    ),
    ("an $INCLUDE of nothing", HEAD + "$INCLUDE\n", r"^x:5: zone hobbit: \$INCLUDE names no file"),
    ("an $INCLUDE of nothing at the end", HEAD + "$INCLUDE", r"^x:5: zone hobbit: \$INCLUDE names no file"),
    (
        "an $INCLUDE of what never ends",
        HEAD + "$INCLUDE /dev/zero\n",
        r"^x:5: zone hobbit: \$INCLUDE /dev/zero: must be a regular file",
    ),
    ("another class", HEAD + "a CH A 192.0.2.1\n", r"^x:5: zone hobbit: "),
]


class TestWrong:
    @pytest.mark.parametrize(("text", "about"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
    def test_it_is_said_where_and_what(self, text: str, about: str) -> None:
        with pytest.raises(ZoneFileError, match=about) as caught:
            parse_zone("hobbit", text, Path("x"))
        assert caught.value.exit_status == 2
        assert "\n" not in str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ZoneFileError, match=r"nope: zone hobbit: cannot read the file: No such file"):
            read_zone("hobbit", tmp_path / "nope")

    def test_a_file_that_is_no_text(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_bytes(b"; gr\xfc\xdfe\n")
        with pytest.raises(ZoneFileError, match=r"x: zone hobbit: byte 4 is not valid UTF-8"):
            read_zone("hobbit", path)

    def test_a_zone_s_name_too_long(self) -> None:
        with pytest.raises(ZoneFileError, match="A DNS name is > 255 octets long"):
            parse_zone(".".join(["a" * 60] * 5), HEAD, Path("x"))


words = st.sampled_from(
    ["@", "a", "*", "a.hobbit.", "$TTL", "$ORIGIN", "$GENERATE", "1-3", "0-4/2", "IN", "CH", "A", "AAAA", "CNAME", "MX",
     "TXT", "SOA", "NS", "TYPE65400", "TYPE1", "\\#", "4", "C0000201", "192.0.2.1", "::1", "300", "1h", "ns", "(", ")",
     '"', '"x"', ";", "\\", "\\000", "\\.", "$", "${0,3,d}", "${", "RRSIG", "HTTPS", "LOC", "NSEC3", "APL", "\n", "\n",
     "\n ", "\t", "SVCB", "1", "alpn=h2", ".", "-", "99999999999"]
)  # fmt: skip


@given(st.lists(words, max_size=30).map(" ".join))
@example("a TYPE1 \\# 4 C0000201")
@example("$GENERATE 1-3 a$ A 192.0.2.$")
def test_any_words_are_a_zone_or_an_error(text: str) -> None:
    for whole in (HEAD + text, text):
        try_to_parse(whole)


@given(st.text(max_size=60))
def test_any_text_is_a_zone_or_an_error(text: str) -> None:
    for whole in (HEAD + text, text):
        try_to_parse(whole)


def try_to_parse(text: str) -> None:
    try:
        found = parse_zone("hobbit", text, Path("x"))
    except ZoneFileError:
        return
    assert len(found.soa.rdatas) == 1
    assert all(names.is_below(owner, found.origin) for owner in found.nodes)
    assert all(owner == owner.lower() for owner in found.nodes)
    assert all(rrset.rdatas for node in found.nodes.values() for rrset in node.values())
    assert SOA in found.nodes[found.origin]
