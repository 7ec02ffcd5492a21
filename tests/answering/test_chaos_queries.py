"""Questions of class CHAOS: answered if the operator said what with, and with nothing else."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import pytest

from lbdns.answering.chaos_queries import about_server
from lbdns.answering.message_writer import write_variant
from lbdns.config import ServerConfig
from lbdns.zones.names import from_text

IDENTITY, VERSION = "ns1 of the Shire, ÄÖ", "lbdns 1.0"
BOTH = ServerConfig(identity=IDENTITY, version=VERSION)


def answered(name: str, rtype: str, config: ServerConfig) -> dns.message.Message | None:
    """The response as dnspython reads it, None if there is none to give."""
    query = dns.message.make_query(name, rtype, dns.rdataclass.CH)
    wire = query.to_wire()
    body = about_server(from_text(name), int(query.question[0].rdtype), config)
    if body is None:
        return None
    head, tail = write_variant(body, 0, None)
    return dns.message.from_wire(wire[:2] + head + wire[12:] + tail)


@pytest.mark.parametrize(
    ("name", "text"),
    [("version.bind", VERSION), ("version.server", VERSION), ("id.server", IDENTITY), ("hostname.bind", IDENTITY)],
)
@pytest.mark.parametrize("rtype", ["TXT", "ANY"])
def test_what_is_configured_is_told(name: str, text: str, rtype: str) -> None:
    message = answered(name, rtype, BOTH)
    assert message is not None
    assert message.flags & dns.flags.AA
    (rrset,) = message.answer
    assert (str(rrset.name), rrset.rdclass, rrset.rdtype, rrset.ttl) == (
        f"{name}.",
        dns.rdataclass.CH,
        dns.rdatatype.TXT,
        0,
    )
    assert rrset[0].strings == (text.encode(),)


@pytest.mark.parametrize("name", ["version.bind", "version.server", "id.server", "hostname.bind"])
def test_what_is_not_is_not(name: str) -> None:
    assert answered(name, "TXT", ServerConfig()) is None
    alone = ServerConfig(version=VERSION) if "version" not in name else ServerConfig(identity=IDENTITY)
    assert answered(name, "TXT", alone) is None


@pytest.mark.parametrize("name", ["authors.bind", "bind", ".", "x.version.bind", "hobbit"])
def test_other_names_are_not(name: str) -> None:
    assert answered(name, "TXT", BOTH) is None


@pytest.mark.parametrize("rtype", ["A", "SOA", "NS", "AXFR"])
def test_other_types_are_not(rtype: str) -> None:
    assert answered("version.bind", rtype, BOTH) is None


def test_the_longest_text() -> None:
    message = answered("id.server", "TXT", ServerConfig(identity="x" * 255))
    assert message is not None
    assert message.answer[0][0].strings == (b"x" * 255,)
