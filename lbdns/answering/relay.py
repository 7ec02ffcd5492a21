"""Whose queries are relayed, what an upstream is asked for them, and what the client gets of its answer. Pure.

Hop by hop, as RFC 5625 wants it of a proxy: the upstream gets an id, a letter case and an OPT of our own, the client
its own id, its own letter case and our OPT. Of the client's options none is handed on, nor any of the upstream's.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lbdns.answering.constants import AD, CD, CLASS_IN, RA, RD, Rcode
from lbdns.answering.edns import OUR_PAYLOAD, Edns, write_opt
from lbdns.answering.errand import Relay
from lbdns.answering.heard import Heard
from lbdns.answering.message import Answer, Body, Record, write
from lbdns.config.reading import Network

if TYPE_CHECKING:
    import dns.rrset

CHANCE_BITS: Final = 255  # one for each octet of the longest name, letter or not
MAX_HOSTS: Final = 65_536  # addresses of which is remembered whether they may
_HEADER: Final = struct.Struct("!HHHHHH")
#: Failures that the client is told as they are. FORMERR, say, is about our query, not about the client's.
_TOLD: Final = frozenset((Rcode.SERVFAIL, Rcode.NOTIMP, Rcode.REFUSED))


class Allowed:
    """The networks whose queries are relayed; nobody's if there are none."""

    __slots__ = ("_hosts", "_networks")

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)
        self._hosts: dict[str, bool] = {}  # working it out takes 10 us

    def __bool__(self) -> bool:
        return bool(self._networks)

    def has(self, host: str) -> bool:
        """Whether the client at this address may have its queries relayed."""
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
class Question:
    """What an upstream is to be asked: one question for all clients who want to know the same."""

    qname: bytes  # lower-case wire form
    qtype: int
    dnssec_ok: bool
    checking_disabled: bool


def question_of(relay: Relay) -> Question:
    """The question that a client's query makes: about its name, or where our own aliases of it lead."""
    query = relay.query
    name = relay.aliases[-1].rdata.lower() if relay.aliases else query.qname
    return Question(name, query.qtype, query.edns is not None and query.edns.dnssec_ok, bool(query.flags & CD))


def ask(question: Question, ident: bytes, chance: int) -> bytes:
    """The query to an upstream. ``chance``, CHANCE_BITS of it, makes the letter case, which an answer must repeat.

    AD says that we want to know whether the answer is authentic (RFC 6840 section 5.7).
    """
    flags = RD | AD | (CD if question.checking_disabled else 0)
    name = bytearray(question.qname)
    for at, octet in enumerate(name):
        # Length octets are below 64 and so never letters
        if 0x61 <= octet <= 0x7A and chance >> at & 1:
            name[at] = octet - 0x20
    opt = write_opt(Edns(OUR_PAYLOAD, 0, question.dnssec_ok), 0, OUR_PAYLOAD)
    counts = b"".join(number.to_bytes(2, "big") for number in (flags, 1, 0, 0, 1))
    return b"".join((ident, counts, name, question.qtype.to_bytes(2, "big"), CLASS_IN.to_bytes(2, "big"), opt))


def hand_on(relay: Relay, heard: Heard | None) -> Body:
    """What the client is told of what an upstream said; nothing heard is a failure.

    No AA, which is not ours to claim, but RA, and CD as the client has it. AD only for who asked for it (RFC 6840
    section 5.8).
    """
    query = relay.query
    flags = RA | (query.flags & CD)
    if heard is None or heard.failed:
        rcode = heard.rcode if heard and heard.rcode in _TOLD else Rcode.SERVFAIL
        return Body(flags | rcode, (0, 0, 0), b"")
    if relay.aliases:
        return _behind(relay, heard, flags)
    if query.flags & AD or (query.edns and query.edns.dnssec_ok):
        flags |= heard.flags & AD
    records = bytearray(heard.records)
    for at in heard.owners:
        records[at : at + len(query.qname)] = query.question[: len(query.qname)]
    return Body(flags | heard.rcode, heard.counts, bytes(records))


def _behind(relay: Relay, heard: Heard, flags: int) -> Body:
    """The answer behind our own aliases: the first name is ours (AA), and of ours nothing is signed (no AD)."""
    # Here: only answers behind an alias of ours need the general message library, which takes 20 ms to read in
    import dns.exception
    import dns.message

    head = _HEADER.pack(0, heard.flags, 1, heard.counts[0], heard.counts[1], 0)
    try:
        # Every pointer has to be worked out: the names stand elsewhere now, behind another question
        whole = dns.message.from_wire(
            head + heard.question + heard.records, ignore_trailing=True, one_rr_per_rrset=True
        )
        answer, authority = _records(whole.answer), _records(whole.authority)
    except (dns.exception.DNSException, ValueError):
        return Body(flags | Rcode.SERVFAIL, (0, 0, 0), b"")
    body = write(Answer(Rcode(heard.rcode), True, relay.aliases + answer, authority), relay.query.qname)
    return Body(body.flags | flags, body.counts, body.records)


def _records(section: Sequence[dns.rrset.RRset]) -> tuple[Record, ...]:
    """The records of a section in order, their names written out."""
    return tuple(
        Record(rrset.name.to_digestable(), rrset.rdtype, rrset.ttl, rdata.to_wire())
        for rrset in section
        for rdata in rrset
    )
