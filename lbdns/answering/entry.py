"""A compiled answer: everything about one question that can be worked out before it is asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns.answering.constants import OPCODE_MASK, QR, RD, TC
from lbdns.answering.edns import Edns, write_opt
from lbdns.answering.handout import Handout
from lbdns.answering.message import Body
from lbdns.answering.ways import KINDS

TRANSPORTS: Final = ("udp", "tcp")
UDP: Final = 0
TCP: Final = 1

#: Head (flags and counts) and tail (records and OPT) of a response; the id and the question go around the head.
Variant = tuple[bytes, bytes]


class Entry:
    """The answer to one question, for each member if it is a pool's.

    ``variants`` holds, by the kind of a usual way of asking, the finished heads and tails for each member: this is
    what the short way of a query finds. None stands where nobody has asked so yet, nothing where a response may be
    too long for some client. ``asked`` counts queries by transport. ``kept`` while the table holds it.
    """

    __slots__ = ("asked", "bodies", "handout", "kept", "qtype", "variants", "zone")

    def __init__(self, zone: str, qtype: int, bodies: Sequence[Body], handout: Handout | None) -> None:
        self.zone = zone
        self.qtype = qtype
        self.bodies = tuple(bodies)  # one for each member; one in all if the answer is not a pool's
        self.handout = handout  # None if the answer is not a pool's
        self.variants: list[Sequence[Variant] | None] = [None] * KINDS
        self.asked = [0, 0]
        self.kept = False

    @property
    def rcode(self) -> int:
        return self.bodies[0].flags & 0xF

    def next_member(self) -> int:
        """Hand out: the index of the body that is due."""
        handout = self.handout
        if handout is None:
            return 0
        try:
            member = handout.order[handout.at]
        except IndexError:
            member = handout.wrap()
        handout.at += 1
        return member


def assemble(body: Body, query_flags: int, edns: Edns | None, rcode: int | None = None) -> Variant:
    """Head and tail of the response with ``body`` to a query with these flags and this OPT.

    ``rcode`` overrules the body's. The opcode is copied, and RD if it is QUERY (RFC 1035 section 4.1.1); AD, CD and
    Z are clear (RFC 4035 section 3.1.6).
    """
    full = body.flags & 0xF if rcode is None else rcode
    copied = query_flags & OPCODE_MASK or query_flags & RD
    flags = QR | copied | (body.flags & ~0xF) | (full & 0xF)
    answers, authorities, additionals = body.counts
    opt = write_opt(edns, full) if edns else b""
    counts = (1, answers, authorities, additionals + bool(opt))
    head = b"".join(number.to_bytes(2, "big") for number in (flags, *counts))
    return head, body.records + opt


def truncated(body: Body) -> Body:
    """The body that says: ask again over TCP. No record is left, so that no RRset is torn (RFC 2181 section 9)."""
    return Body(body.flags | TC, (0, 0, 0), b"")
