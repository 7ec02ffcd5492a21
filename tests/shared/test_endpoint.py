"""Parsing HOST:PORT."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.endpoint import Endpoint, address_fault, parse_endpoint, parse_listen


@pytest.mark.parametrize(
    ("text", "expected", "shown"),
    [
        ("gandalf", Endpoint("gandalf", 53), "gandalf:53"),
        ("gandalf:5300", Endpoint("gandalf", 5300), "gandalf:5300"),
        (" gandalf.hobbit:1 ", Endpoint("gandalf.hobbit", 1), "gandalf.hobbit:1"),
        ("127.0.0.1", Endpoint("127.0.0.1", 53), "127.0.0.1:53"),
        ("127.0.0.1:0", Endpoint("127.0.0.1", 0), "127.0.0.1:0"),
        ("127.0.0.1:65535", Endpoint("127.0.0.1", 65535), "127.0.0.1:65535"),
        ("127.0.0.1:", Endpoint("127.0.0.1", 53), "127.0.0.1:53"),
        ("::1", Endpoint("::1", 53), "[::1]:53"),
        ("::", Endpoint("::", 53), "[::]:53"),
        ("[::1]", Endpoint("::1", 53), "[::1]:53"),
        ("[::1]:5300", Endpoint("::1", 5300), "[::1]:5300"),
        ("[fe80::1%eth0]:5300", Endpoint("fe80::1%eth0", 5300), "[fe80::1%eth0]:5300"),
    ],
)
def test_what_is_read_and_shown(text: str, expected: Endpoint, shown: str) -> None:
    assert parse_endpoint(text, 53) == expected
    assert str(expected) == shown
    assert parse_endpoint(shown, 1) == expected


@pytest.mark.parametrize(
    "text",
    ["", "  ", ":53", "[]", "[]:53", "[::1", "[::1]53", "[::1]x:53", "a b", "a/b", "http://a", "a:b:c", "[a]b]:1",
     "a:-1", "a:65536", "a:x", "a:5 3", "a:\N{ARABIC-INDIC DIGIT FIVE}", "a:" + "9" * 5000, "1::2::3", "[gandalf]:53"],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a HOST:PORT|the port must be a number from 0 to 65535"):
        parse_endpoint(text, 53)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("::1:53", "'::1:53' is ambiguous; write [::1]:53 for port 53, or [::1:53] for the address ::1:53"),
        ("2001:db8::1:5300", "'2001:db8::1:5300' is ambiguous; write [2001:db8::1]:5300 for port 5300, or [2001:db8"),
        ("::1:65535", "'::1:65535': an IPv6 address with a port must be in brackets; write [::1]:65535"),
        (
            "1:2:3:4:5:6:7:8:53",
            "'1:2:3:4:5:6:7:8:53': an IPv6 address with a port must be in brackets; write [1:2:3:4:",
        ),
        (
            "fe80::1%eth0:53",
            "'fe80::1%eth0:53': an IPv6 address with a port must be in brackets; write [fe80::1%eth0]:",
        ),
    ],
)
def test_a_port_after_a_bare_ipv6_address(text: str, message: str) -> None:
    """An IPv6 address is in brackets in front of a port (RFC 3986 section 3.2.2, RFC 5952 section 6)."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        parse_endpoint(text, 53)


@pytest.mark.parametrize(
    "address", ["::53", "2001:db8::53", "2001:db8::1:a", "2001:db8:0:0:0:0:1:53", "::ffff:192.0.2.1"]
)
def test_a_bare_ipv6_address_that_cannot_contain_a_port(address: str) -> None:
    assert parse_endpoint(address, 53) == Endpoint(address, 53)


def test_brackets_without_a_port_contain_the_whole_address() -> None:
    assert parse_endpoint("[2001:db8::1:53]", 1) == Endpoint("2001:db8::1:53", 1)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("fe80::1%eth0", True), ("gandalf", False), ("1.2.3", False), ("", False)],
)
def test_what_is_an_address(host: str, expected: bool) -> None:
    assert Endpoint(host, 1).is_address is expected


def test_listening_needs_an_address() -> None:
    assert parse_listen("[::]:5300", 53) == Endpoint("::", 5300)
    message = r"'gandalf': the address to listen on must be an IP address, such as 127\.0\.0\.1:53"
    with pytest.raises(ValueError, match=message):
        parse_listen("gandalf", 53)


@given(st.text(max_size=30))
def test_any_text_is_an_endpoint_or_a_value_error(text: str) -> None:
    try:
        endpoint = parse_endpoint(text, 53)
    except ValueError:
        return
    assert endpoint.host
    assert 0 <= endpoint.port <= 65535
    assert parse_endpoint(str(endpoint), 1) == endpoint


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("127.0.0.1", ""),
        ("fe80::1%eth0", ""),
        ("300.0.0.1", "the number 300 is greater than 255"),
        ("1.2.3", "an IPv4 address consists of four numbers, but '1.2.3' has 3"),
        ("1.2.3.x", "'x' is not a number from 0 to 255"),
        ("1.2..3", "a number is missing before or after a dot"),
        ("1.2.3.04", "the number 04 must not begin with 0"),
        ("1::2::3", "'::' must appear only once"),
        ("1:2:3", "an IPv6 address consists of eight groups, but '1:2:3' has 3"),
        ("::12345", "the group '12345' must consist of one to four hexadecimal digits"),
    ],
)
def test_what_is_wrong_with_an_address(text: str, fault: str) -> None:
    assert address_fault(text) == fault


@given(st.text("0123456789abcdef.:%", max_size=45) | st.ip_addresses().map(str))
def test_every_invalid_address_has_a_fault(text: str) -> None:
    assert bool(address_fault(text)) != Endpoint(text, 1).is_address or "%" in text
