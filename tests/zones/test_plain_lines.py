"""Checks that the fast reader of plain lines and the full parser agree, whatever the other lines contain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import dns.name
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns.zones import master_file
from lbdns.zones.master_file import Zone, parse_zone
from lbdns.zones.plain_lines import plain_lines
from lbdns_shared.errors import ZoneFileError

ORIGIN = dns.name.from_text("Hobbit.")
HEAD = "$TTL 1h\n@ SOA ns hostmaster 7 1h 15m 1w 5m\n@ NS ns\n"


def read(text: str) -> list[tuple[bytes, int | None, str, bytes]]:
    return [(line.owner, line.ttl, line.rtype.name, line.rdata) for line in plain_lines(text, 0, ORIGIN)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a A 192.0.2.1", (b"\1a\6Hobbit\0", None, "A", b"\xc0\0\2\1")),
        ("A.b\t60 in AAAA ::1", (b"\1A\1b\6Hobbit\0", 60, "AAAA", bytes(15) + b"\1")),
        ("@ IN NS ns", (b"\6Hobbit\0", None, "NS", b"\2ns\6Hobbit\0")),
        ("x.orc. CNAME Y.orc.  ", (b"\1x\3orc\0", None, "CNAME", b"\1Y\3orc\0")),
        ("1 0 PTR a_b-c", (b"\0011\6Hobbit\0", 0, "PTR", b"\5a_b-c\6Hobbit\0")),
        (f"{'a' * 63} A 1.2.3.4", (b"\x3f" + b"a" * 63 + b"\6Hobbit\0", None, "A", b"\1\2\3\4")),
    ],
)
def test_plain(line: str, expected: tuple[bytes, int | None, str, bytes]) -> None:
    assert read(line + "\n") == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "", " A 1.2.3.4", "a", "a A", "a A 1.2.3", "a A 01.2.3.4", "a A 1.2.3.4 ; said", "a A 1.2.3.4 5", "a A ::1",
        "a AAAA 1.2.3.4", "a AAAA fe80::1%1", "$TTL A 1.2.3.4", "*.a A 1.2.3.4", "a\\046b A 1.2.3.4", '"a" A 1.2.3.4',
        "a IN 60 A 1.2.3.4", "a 1h A 1.2.3.4", "a CH A 1.2.3.4", "a 1234567890 A 1.2.3.4", "a a 1.2.3.4",
        "a..b A 1.2.3.4",
        "a TXT b", "a A (1.2.3.4)", "a CNAME @", "a CNAME b:c", "-a A 1.2.3.4", f"{'a' * 64} A 1.2.3.4",
        f"{'.'.join(['a' * 63] * 4)} A 1.2.3.4", f"a CNAME {'.'.join(['a' * 63] * 4)}", "\u00e4 A 1.2.3.4",
    ],
)  # fmt: skip
def test_not_plain(line: str) -> None:
    assert read(f"{line}\n") == []
    assert len(read(f"ok A 1.2.3.4\n{line}\nok A 1.2.3.4\n")) == 1, "the general reader goes on from there"


def test_the_last_line_needs_its_end() -> None:
    assert read("a A 1.2.3.4") == []


@contextmanager
def without_plain_lines() -> Iterator[None]:
    with mock.patch.object(master_file, "plain_lines", return_value=()):
        yield


def parsed(text: str) -> Zone | list[str]:
    try:
        return parse_zone("hobbit", text, Path("x"))
    except ZoneFileError as error:
        return list(error.findings)


NAMES = st.sampled_from(["a", "b", "a.b", "A.B", "@", "*", "*.a", "a.hobbit.", "x.orc.", "hobbit.", "sub.a", "A"])
LINES = st.one_of(
    st.tuples(
        st.sampled_from(["", "60 ", "0 ", "IN ", "60 IN ", "IN 60 ", "1h ", "9999999999 "]),
        st.sampled_from(["A", "a", "AAAA", "CNAME", "NS", "PTR", "TXT", "MX 10", "DNAME", "SOA"]),
        st.sampled_from(
            ["192.0.2.1", "192.0.2.2", "1.2.3", "::1", "::ffff:1.2.3.4", "b", "B", "ns", "x.orc.", '"a b"', "@"]
        ),
        st.sampled_from(["", " ", "\t", " ; said", ")", "\r"]),
    ).map("{0[0]}{0[1]} {0[2]}{0[3]}".format)
)
TEXTS = st.lists(
    st.one_of(
        st.tuples(NAMES | st.just(""), LINES).map(" ".join),
        st.sampled_from(["$TTL 30", "$ORIGIN a", "$ORIGIN hobbit.", "$ORIGIN orc.", "", "; said",
                         "$GENERATE 1-3 g$ A 192.0.2.$", "a TXT (", ")", '"', "@ SOA ns h 1 2 3 4 5"]),
    ),
    max_size=12,
).map("\n".join)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(st.sampled_from([HEAD, HEAD.partition("\n")[2]]), TEXTS, st.sampled_from(["", "\n"]))
def test_the_same_zone_and_the_same_errors_as_from_the_general_reader(head: str, text: str, end: str) -> None:
    whole = head + text + end
    with without_plain_lines():
        expected = parsed(whole)
    assert parsed(whole) == expected


def test_included_files_too(tmp_path: Path) -> None:
    (tmp_path / "more").write_text("a A 192.0.2.1\n  TXT below\n$ORIGIN b\nc A 192.0.2.2\n")
    text = HEAD + "first A 192.0.2.3\n$INCLUDE more sub\nlast A 192.0.2.4\n TXT x\n"
    zone = parse_zone("hobbit", text, tmp_path / "hobbit.zone")
    with without_plain_lines():
        assert zone == parse_zone("hobbit", text, tmp_path / "hobbit.zone")
    assert b"\1c\1b\3sub\6hobbit\0" in zone.nodes
    assert len(zone.nodes[b"\4last\6hobbit\0"]) == 2
