"""The protocol's numbers, against dnspython's."""

from __future__ import annotations

import dns.flags
import dns.rcode
import dns.rdatatype
import pytest

from lbdns.answering import dns_constants
from lbdns.answering.dns_constants import Rcode, Type


@pytest.mark.parametrize("rtype", Type)
def test_types(rtype: Type) -> None:
    assert int(dns.rdatatype.from_text(rtype.name)) == rtype
    assert dns_constants.TYPE_NAMES[int(rtype)] == rtype.name


@pytest.mark.parametrize("rcode", Rcode)
def test_rcodes(rcode: Rcode) -> None:
    assert int(dns.rcode.from_text(rcode.name)) == rcode


@pytest.mark.parametrize("name", ["QR", "AA", "TC", "RD"])
def test_flags(name: str) -> None:
    assert getattr(dns_constants, name) == dns.flags.Flag[name]


def test_meta_types_are_none_that_a_zone_holds() -> None:
    assert all(dns.rdatatype.is_metatype(dns.rdatatype.RdataType(rtype)) for rtype in dns_constants.META_TYPES)
