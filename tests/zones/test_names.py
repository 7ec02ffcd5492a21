"""Tests of domain names in wire form."""

from __future__ import annotations

import dns.name
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.zones import names

labels = st.from_regex(r"[a-z0-9_][a-z0-9_-]{0,15}", fullmatch=True)
wires = st.lists(st.binary(min_size=1, max_size=20), max_size=6).map(
    lambda parts: b"".join(bytes([len(part)]) + part for part in parts) + b"\0"
)


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        ("", b"\0"),
        (".", b"\0"),
        ("hobbit", b"\6hobbit\0"),
        ("hobbit.", b"\6hobbit\0"),
        ("Best.HOBBIT", b"\4best\6hobbit\0"),
        ("a" * 63, b"\x3f" + b"a" * 63 + b"\0"),
    ],
)
def test_from_text(text: str, wire: bytes) -> None:
    assert names.from_text(text) == wire


@pytest.mark.parametrize("text", ["a" * 64, ".".join(["a" * 63] * 4), "hob.ü"])
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"too long|ascii"):
        names.from_text(text)


def test_the_longest_name() -> None:
    longest = ".".join(["a" * 63] * 3 + ["a" * 61])
    assert len(names.from_text(longest)) == names.MAX_NAME


@given(st.lists(labels, min_size=1, max_size=8))
def test_the_same_as_dnspython(parts: list[str]) -> None:
    text = ".".join(parts)
    assert names.from_text(text) == dns.name.from_text(text).to_wire()
    assert names.to_text(names.from_text(text)) == text


@given(wires)
def test_text_of_any_name_is_read_back_by_dnspython(wire: bytes) -> None:
    text = names.to_text(wire)
    assert text.isprintable()
    assert dns.name.from_text(text).to_wire() == wire


@pytest.mark.parametrize(
    ("wire", "text"), [(b"\0", "."), (b"\3a.b\1c\0", r"a\.b.c"), (b"\2\0 \0", r"\000\032"), (b"\3(;\\\0", r"\(\;\\")]
)
def test_to_text_escapes(wire: bytes, text: str) -> None:
    assert names.to_text(wire) == text


def test_parent_and_suffixes() -> None:
    wire = names.from_text("best.web.hobbit")
    assert names.parent(wire) == names.from_text("web.hobbit")
    assert names.suffixes(wire) == [wire, names.from_text("web.hobbit"), names.from_text("hobbit"), b"\0"]
    assert names.suffixes(b"\0") == [b"\0"]


@pytest.mark.parametrize(
    ("name", "ancestor", "expected"),
    [
        ("best.hobbit", "hobbit", True),
        ("hobbit", "hobbit", True),
        ("hobbit", "", True),
        ("", "", True),
        ("hobbit", "best.hobbit", False),
        ("best.orc", "hobbit", False),
        ("xhobbit", "hobbit", False),
    ],
)
def test_is_below(name: str, ancestor: str, expected: bool) -> None:
    assert names.is_below(names.from_text(name), names.from_text(ancestor)) is expected


def test_the_same_bytes_inside_a_label_are_not_below() -> None:
    # One label of eight bytes that ends as the wire form of "hobbit" does
    assert not names.is_below(b"\x08a\6hobbit\0", names.from_text("hobbit"))


@given(wires, wires)
def test_is_below_as_dnspython_has_it(wire: bytes, ancestor: bytes) -> None:
    joined = wire[:-1] + ancestor
    for name in (wire, joined):
        expected = dns.name.from_wire(name, 0)[0].is_subdomain(dns.name.from_wire(ancestor, 0)[0])
        if name.lower() == name and ancestor.lower() == ancestor:
            assert names.is_below(name, ancestor) is expected
