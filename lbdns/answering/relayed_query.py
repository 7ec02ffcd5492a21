"""Relayed queries: checks client permissions, and writes queries to upstreams and responses to clients. Sans-I/O.

The two hops are independent, as RFC 5625 requires. The query to the upstream has its own id, letter case and OPT
record. The response to the client has the id and letter case of the client's query, and this server's own OPT record.
No EDNS option is passed on in either direction.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lbdns.answering.dns_constants import AD, CD, CLASS_IN, RA, RD, Rcode
from lbdns.answering.edns import NO_OPTIONS, OUR_PAYLOAD, Edns, EdnsOptions, write_opt
from lbdns.answering.message_writer import AnswerSections, Record, ResponseBody, write_body
from lbdns.answering.query_reader import Query
from lbdns.answering.upstream_response import UpstreamResponse
from lbdns.config.value_readers import Network

if TYPE_CHECKING:
    import dns.rrset

CASE_BITS: Final = 255  # one for each octet of the longest name, letter or not
MAX_HOSTS: Final = 65_536  # addresses whose permission is cached
_HEADER: Final = struct.Struct("!HHHHHH")
#: Error RCODEs that are passed on to the client. Others, such as FORMERR, concern our query and not the client's.
_PASSED: Final = frozenset((Rcode.SERVFAIL, Rcode.NOTIMP, Rcode.REFUSED))


class AllowedNetworks:
    """The client networks that the configuration allows. An empty list allows no client."""

    __slots__ = ("_hosts", "_networks")

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)
        self._hosts: dict[str, bool] = {}  # a check takes 10 us without this cache

    def __bool__(self) -> bool:
        return bool(self._networks)

    def has(self, host: str) -> bool:
        """Return whether the client at this address is in one of the networks."""
        if not self._networks:
            return False
        may = self._hosts.get(host)
        if may is None:
            address = ipaddress.ip_address(host.partition("%")[0])
            may = any(address in network for network in self._networks)
            if len(self._hosts) >= MAX_HOSTS:
                self._hosts.clear()
            self._hosts[host] = may
        return may


@dataclass(frozen=True, slots=True)
class RelayedQuery:
    """A query to be relayed to an upstream: RD is set, and the client is in an allowed network.

    The queried name is outside our zones, or it is one of our names and its ``aliases`` lead out of our zones.
    """

    query: Query
    host: str  # the client's address
    transport: int
    options: EdnsOptions = NO_OPTIONS  # of the response
    zone: str = ""  # our zone with the aliases
    aliases: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class UpstreamQuestion:
    """A question for an upstream. All clients that ask the same question wait for the same upstream answer."""

    qname: bytes  # lower-case wire form
    qtype: int
    dnssec_ok: bool
    checking_disabled: bool


def upstream_question(relayed: RelayedQuery) -> UpstreamQuestion:
    """Return the question to send upstream, either for the query's name or for the target of our alias."""
    query = relayed.query
    name = relayed.aliases[-1].rdata.lower() if relayed.aliases else query.qname
    return UpstreamQuestion(name, query.qtype, query.edns is not None and query.edns.dnssec_ok, bool(query.flags & CD))


def upstream_query(question: UpstreamQuestion, ident: bytes, chance: int) -> bytes:
    """Return the query to send to an upstream, with the 2-byte ``ident`` as its id.

    ``chance`` contains CASE_BITS random bits, which determine the letter case that the answer must repeat. The AD bit
    in the query requests the AD bit in the answer (RFC 6840 section 5.7).
    """
    flags = RD | AD | (CD if question.checking_disabled else 0)
    name = bytearray(question.qname)
    for at, octet in enumerate(name):
        # Length octets are below 64 and therefore never letters
        if 0x61 <= octet <= 0x7A and chance >> at & 1:
            name[at] = octet - 0x20
    opt = write_opt(Edns(OUR_PAYLOAD, 0, question.dnssec_ok), 0, OUR_PAYLOAD)
    counts = b"".join(number.to_bytes(2, "big") for number in (flags, 1, 0, 0, 1))
    return b"".join((ident, counts, name, question.qtype.to_bytes(2, "big"), CLASS_IN.to_bytes(2, "big"), opt))


def relayed_body(relayed: RelayedQuery, response: UpstreamResponse | None) -> ResponseBody:
    """Return the body of the response to the client.

    If no upstream answered, ``response`` is None and the RCODE is SERVFAIL. RA is set; AA is set only if the answer
    begins with aliases from our zones. CD is copied from the query. The upstream's AD bit is passed on only if the
    client's query requests it (RFC 6840 section 5.8).
    """
    query = relayed.query
    flags = RA | (query.flags & CD)
    if response is None or response.failed:
        rcode = response.rcode if response and response.rcode in _PASSED else Rcode.SERVFAIL
        return ResponseBody(flags | rcode, (0, 0, 0), b"")
    if relayed.aliases:
        return _after_aliases(relayed, response, flags)
    if query.flags & AD or (query.edns and query.edns.dnssec_ok):
        flags |= response.flags & AD
    records = bytearray(response.records)
    for at in response.owners:
        records[at : at + len(query.qname)] = query.question[: len(query.qname)]
    return ResponseBody(flags | response.rcode, response.counts, bytes(records))


def _after_aliases(relayed: RelayedQuery, response: UpstreamResponse, flags: int) -> ResponseBody:
    """Return our aliases followed by the upstream's answer.

    AA is set, because the first name is in our zones; AD is clear, because our aliases are unsigned.
    """
    # Imported here: only answers after an alias of ours need dnspython's messages, which take 20 ms to import
    import dns.exception
    import dns.message

    head = _HEADER.pack(0, response.flags, 1, response.counts[0], response.counts[1], 0)
    try:
        # Pointers must be resolved: names have other offsets in a message with another question
        whole = dns.message.from_wire(
            head + response.question + response.records, ignore_trailing=True, one_rr_per_rrset=True
        )
        answer, authority = _records(whole.answer), _records(whole.authority)
    except (dns.exception.DNSException, ValueError):
        return ResponseBody(flags | Rcode.SERVFAIL, (0, 0, 0), b"")
    sections = AnswerSections(Rcode(response.rcode), True, relayed.aliases + answer, authority)
    body = write_body(sections, relayed.query.qname)
    return ResponseBody(body.flags | flags, body.counts, body.records)


def _records(section: Sequence[dns.rrset.RRset]) -> tuple[Record, ...]:
    """Return the records of a section in order, with uncompressed names."""
    return tuple(
        Record(rrset.name.to_digestable(), rrset.rdtype, rrset.ttl, rdata.to_wire())
        for rrset in section
        for rdata in rrset
    )
