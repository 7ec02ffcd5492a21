"""Tests of $GENERATE lines. The expected values are those that named-compilezone of BIND 9.18 prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.zones import names
from lbdns.zones.generate_lines import expanded
from lbdns.zones.master_file import parse_zone
from lbdns_shared.errors import ZoneFileError

HEAD = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\n"


def generated(line: str) -> dict[str, tuple[int, tuple[bytes, ...]]]:
    """Return the TTL and data of each record set that the $GENERATE line creates, by owner name."""
    nodes = parse_zone("z", f"{HEAD}$GENERATE {line}\nlast A 192.0.2.1\n", Path("z.zone")).nodes
    assert names.from_text("last.z") in nodes, "the next line is read"
    return {
        names.to_text(owner): (rrset.ttl, rrset.rdatas)
        for owner, node in nodes.items()
        for rrset in node.values()
        if names.to_text(owner) not in ("z", "last.z")
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # Quotation marks around the data are not part of it
        ('a$ TXT "a $ b"', b"\1a\0011\1b"),
        ('a$ TXT "\\"a $ b\\""', b"\5a 1 b"),
        ('a$ TXT "\\"a $\\" \\"b $\\""', b"\3a 1\3b 1"),
        ('a$ TXT "v=spf1 ip4:10.0.$.0/24 -all"', b"\6v=spf1\x0fip4:10.0.1.0/24\4-all"),
        ('a$ MX "10 mail$"', b"\0\x0a\5mail1\1z\0"),
        ('a$ SRV "0 0 80 $.b"', b"\0\0\0\0\0\x50\0011\1b\1z\0"),
        ('a$ TXT "cost \\$ $$ $"', b"\4cost\1$\1$\0011"),
        ('a$ TXT ""', None),
        ("a$ TXT x-$ ; a comment", b"\3x-1"),
        ("a$ A 192.0.2.$", b"\xc0\0\2\1"),
        ("a$ IN A 192.0.2.$", b"\xc0\0\2\1"),
        ("a$ MB mail$", b"\5mail1\1z\0"),
        ('a$ TYPE65400 "\\# 1 0$"', b"\1"),
    ],
)
def test_data_is_one_word_or_quoted(line: str, expected: bytes | None) -> None:
    if expected is None:
        with pytest.raises(ZoneFileError):
            generated(f"1-1 {line}")
    else:
        assert generated(f"1-1 {line}") == {"a1.z": (60, (expected,))}


def test_a_ttl_applies_to_the_line() -> None:
    assert generated("2-6/2 a$ 30 IN A 192.0.2.$") == {f"a{i}.z": (30, (bytes((192, 0, 2, i)),)) for i in (2, 4, 6)}


def test_an_owner_outside_the_zone_is_a_warning() -> None:
    zone = parse_zone("z", f"{HEAD}$GENERATE 1-2 a$.x. A 192.0.2.$\nlast A 192.0.2.1\n", Path("z.zone"))
    assert zone.warnings == ("z.zone:4: a1.x.: lies outside the zone and is ignored",)
    assert names.from_text("last.z") in zone.nodes


@pytest.mark.parametrize(
    ("template", "number", "expected"),
    [
        ("x", 5, "x"),
        ("$-$", 5, "5-5"),
        ("$$", 5, "$"),
        ("\\$$", 5, "\\$5"),
        ("${0}", 5, "5"),
        ("${1,3}", 5, "006"),
        ("${-1,2,d}", 5, "04"),
        ("${+2,2}", 5, "07"),
        ("${0,4,x}", 300, "012c"),
        ("${3,3,X}", 9, "00C"),
        ("${2,0,o}", 9, "13"),
        ("${0,1,n}", 17, "1.1"),
        ("${0,2,n}", 1, "1."),
        ("${0,3,n}", 1, "1.0"),
        ("${0,8,N}", 10, "A.0.0.0."),
        ("${200,6,n}", 300, "4.f.1."),
    ],
)
def test_numbers(template: str, number: int, expected: str) -> None:
    assert expanded(template, number) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1-2 a$ MX 10 mail$", r'data that contains several words must be in quotation marks: "10 mail\$"'),
        ("1-2 a$ TXT x y", r'data that contains several words must be in quotation marks: "x y"'),
        ("1-2 a$ TXT", "must have a type and the data"),
        ("1-2 a$", "must have a type and the data"),
        ("1-2", "must be followed by a range, an owner name"),
        ("", "must be followed by a range, an owner name"),
        ("2 a$ A 192.0.2.$", "must have a range such as 1-9 or 0-8/2, not '2'"),
        ("5-1 a$ A 192.0.2.$", "must have a range"),
        ("1-5/0 a$ A 192.0.2.$", "must have a range"),
        ("1-2 a$ CH A 192.0.2.$", "the class must be IN, not CH"),
        ("1-2 a$ AA 192.0.2.$", "unknown record type 'AA'"),
        ("1-2 a$ TXT ${x}", "needs a modifier of the form"),
        ("1-2 a$ TXT ${0,128}", "the width of a .* modifier must be at most 127"),
        ("1-2 a$ TXT ${-9,1,n}", "cannot write -8 as nibbles"),
        ("1-300 a$ A 192.0.2.$", "near '192.0.2.\\$'"),
        ("1-2 $..a A 192.0.2.$", "near"),
    ],
)
def test_errors_name_the_line(line: str, reason: str) -> None:
    with pytest.raises(ZoneFileError, match=rf"^z\.zone:4: zone z: .*{reason}"):
        generated(line)


def test_a_ttl_is_needed() -> None:
    text = "@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\n$GENERATE 1-2 a$ A 192.0.2.$\n"
    assert len(parse_zone("z", text, Path("z.zone")).nodes) == 3, "the last TTL applies"
