"""Tests of host names: only addresses, localhost and configured names are accepted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_collector.web.host_names import is_name_of_server

NAMES = frozenset({"dns.example.com"})


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "192.0.2.1:8053", "[::1]", "[2001:db8::1]:8053", "[fe80::1%25eth0]:8053", "localhost",
        "LOCALHOST:8053", "localhost.", "dns.example.com", "DNS.example.com.:80", "dns.example.com:",
    ],
)  # fmt: skip
def test_names_of_the_server(host: str) -> None:
    assert is_name_of_server(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "", ":", "evil.example", "127.0.0.1.evil.example", "dns.example.com.evil.example", "evil.example:8053", "127.1",
        "::1", "[127.0.0.1]", "[localhost]", "localhost%eth0", "dns.example.com@evil.example", "localhost,evil.example",
        "localhost:80:80", "localhost:x", "[::1]evil.example", " localhost", "localhost\n", "localhost..",
    ],
)  # fmt: skip
def test_other_names(host: str) -> None:
    assert not is_name_of_server(host, NAMES)


@given(st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z0-9-]{1,20}){0,3}\.[a-z]{2,8}", fullmatch=True))
def test_no_domain_name_is_accepted(name: str) -> None:
    assert not is_name_of_server(name, frozenset())


@given(st.ip_addresses(), st.one_of(st.just(""), st.integers(0, 65535).map(lambda port: f":{port}")))
def test_every_address_is_accepted(address: object, port: str) -> None:
    assert is_name_of_server((f"[{address}]" if ":" in str(address) else str(address)) + port, frozenset())
