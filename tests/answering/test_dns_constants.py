"""Compares lbdns's constants for the DNS protocol with dnspython's."""

from __future__ import annotations

import dns.flags
import dns.rdatatype
import pytest

from lbdns.answering import dns_constants


def test_types_have_their_names() -> None:
    assert {
        int(dns.rdatatype.from_text(name)): name for name in dns_constants.TYPE_NAMES.values()
    } == dns_constants.TYPE_NAMES


@pytest.mark.parametrize("name", ["QR", "AA", "TC", "RD"])
def test_flags(name: str) -> None:
    assert getattr(dns_constants, name) == dns.flags.Flag[name]


def test_meta_types_are_none_that_a_zone_holds() -> None:
    assert all(dns.rdatatype.is_metatype(dns.rdatatype.RdataType(rtype)) for rtype in dns_constants.META_TYPES)
