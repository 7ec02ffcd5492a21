"""Tests of obsolete record types: each notation gives the octets that its RFC defines, and can be read back."""

from __future__ import annotations

import re
from pathlib import Path

import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest

from lbdns.zones import names
from lbdns.zones.master_file import parse_zone
from lbdns.zones.obsolete_types import register
from lbdns_shared.errors import ZoneFileError

HEAD = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\n"
MAIL = b"\4Mail\1z\0"
ADDRESS = "2001:db8:0:1:2:3:4:5"
OCTETS = bytes.fromhex("20010db8000000010002000300040005")


def rdata(line: str) -> bytes:
    """Return the only record at the owner name x, in wire form."""
    node = parse_zone("z", f"{HEAD}x {line}\n", Path("z.zone")).nodes[names.from_text("x.z")]
    (rrset,) = node.values()
    (found,) = rrset.rdatas
    return found


READ = [
    *((f"{rtype} Mail", MAIL) for rtype in ("MD", "MF", "MB", "MG", "MR")),
    ("MINFO Mail errors.example.", MAIL + b"\6errors\7example\0"),
    ("NXT Mail A MX NXT", MAIL + bytes.fromhex("40010002")),
    (f"A6 0 {ADDRESS}", b"\0" + OCTETS),
    ("A6 64 ::2:3:4:5 Mail", b"\x40" + OCTETS[8:] + MAIL),
    ("A6 61 ::7:2:3:4:5 Mail", b"\x3d\7" + OCTETS[8:] + MAIL),
    ("A6 128 Mail", b"\x80" + MAIL),
    ("TA 1 8 2 " + "ab" * 32, b"\0\1\x08\2" + b"\xab" * 32),
]


@pytest.mark.parametrize(("line", "expected"), READ, ids=[line.split()[0] for line, _ in READ])
def test_each_type_is_read_and_written(line: str, expected: bytes) -> None:
    assert rdata(line) == expected
    rtype = dns.rdatatype.from_text(line.split()[0])
    text = dns.rdata.from_wire(dns.rdataclass.IN, rtype, expected, 0, len(expected)).to_text()
    assert rdata(f"{line.split()[0]} {text}") == expected
    # The same data in the notation of RFC 3597
    assert rdata(f"TYPE{int(rtype)} \\# {len(expected)} {expected.hex()}") == expected


def test_names_differ_only_in_case_in_equal_records() -> None:
    found = parse_zone("z", f"{HEAD}x MB mail\nx MB MAIL\nx MINFO a b\nx MINFO A B\n", Path("z.zone"))
    assert [len(rrset.rdatas) for rrset in found.nodes[names.from_text("x.z")].values()] == [1, 1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("MB", "near"),
        ("MINFO mail", "near"),
        ("A6 129 ::1 mail", "at most 128"),
        ("A6 64 2001:db8::1 mail", "bits set in its prefix"),
        ("A6 61 ::8:0:0:0:1 mail", "bits set in its prefix"),
        ("A6 0 ::1 mail", "near 'mail'"),
        ("A6 64 mail", "near 'mail'"),
        ("NXT mail TYPE128", "only types below 128"),
        ("TYPE38 \\# 1 ff", "near"),
        ("TYPE38 \\# 2 4001", "near"),
    ],
)
def test_errors_name_the_line(line: str, reason: str) -> None:
    with pytest.raises(ZoneFileError, match=rf"^z\.zone:4: zone z: .*{reason}"):
        rdata(line)


@pytest.mark.parametrize("line", ["NULL abcd", "TYPE65400 abcd", "UNSPEC abcd"])
def test_a_type_without_a_notation_needs_the_generic_form(line: str) -> None:
    with pytest.raises(ZoneFileError, match=r"^z\.zone:4: zone z: .* must be written as \\# LENGTH HEX \(RFC 3597\)"):
        rdata(line)
    assert rdata(f"{line.split()[0]} \\# 2 abcd") == b"\xab\xcd"


@pytest.mark.parametrize("name", ["EID", "ATMA", "NOSUCH"])
def test_a_type_without_a_known_name_needs_its_number(name: str) -> None:
    what = rf"unknown record type '{name}'; perhaps write it as TYPE and its number"
    with pytest.raises(ZoneFileError, match=rf"^z\.zone:4: zone z: {what}"):
        rdata(f"{name} 0102")


def test_registering_again_changes_nothing() -> None:
    register()
    assert rdata("MB Mail") == MAIL


def test_the_documented_types_have_a_notation() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/master-files.md").read_text()
    rows = re.findall(r"^\| (A, AAAA.*?|MD, MF.*?)(?:;.*?| \(obsolete\))? \|", page, re.MULTILINE)
    assert len(rows) == 2
    for name in ", ".join(rows).split(", "):
        implementation = dns.rdata.get_rdata_class(  # type: ignore[no-untyped-call]
            dns.rdataclass.IN, dns.rdatatype.from_text(name)
        )
        assert implementation is not dns.rdata.GenericRdata, name
