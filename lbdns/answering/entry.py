"""A compiled answer: everything about one question that can be worked out before it is asked. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lbdns.answering.coherence import TOGETHER
from lbdns.answering.constants import OPCODE_MASK, QR, RD, TC
from lbdns.answering.edns import OUR_PAYLOAD, Edns, write_opt
from lbdns.answering.handout import Handout
from lbdns.answering.message import Body, Record
from lbdns.answering.ways import KINDS

TRANSPORTS: Final = ("udp", "tcp")
UDP: Final = 0
TCP: Final = 1

#: Head (flags and counts) and tail (records and OPT) of a response; the id and the question go around the head.
Variant = tuple[bytes, bytes]


class Entry:
    """The answer to one question, for each member if it is a pool's.

    ``make`` writes the body for one member; without a hand-out there is one body in all. ``variants`` holds, by the
    kind of a usual way of asking, the finished heads and tails for each member: this is what the short way of a query
    finds. None stands where nobody has asked so yet, nothing where a response may be too long for some client.
    ``asked`` counts queries by transport. ``kept`` while the table holds it. ``together`` says which of the types that
    belong together it is, None if it has its members alone.
    """

    __slots__ = (
        "_bodies", "_make", "asked", "handout", "kept", "key", "qtype", "together", "variants", "way_out", "zone",
    )  # fmt: skip

    def __init__(
        self, key: bytes, zone: str, qtype: int, make: Callable[[int], Body], members: int, handout: Handout | None
    ) -> None:
        self.key = key  # the question's bytes, in lower case
        self.zone = zone
        self.qtype = qtype
        self.handout = handout  # None if the answer is not a pool's
        self.together = TOGETHER.get(qtype) if handout and handout.coherence else None
        self._make = make
        # A question that isn't kept is answered with one body of perhaps hundreds: the others are never written
        self._bodies: list[Body | None] = [None] * (members if handout else 1)
        self.variants: list[Sequence[Variant] | None] = [None] * KINDS
        self.asked = [0, 0]
        self.kept = False
        self.way_out: tuple[Record, ...] = ()  # all there is: aliases whose end is in no zone of ours

    def body(self, member: int) -> Body:
        """The answer that names ``member``."""
        body = self._bodies[member]
        if body is None:
            body = self._bodies[member] = self._make(member)
        return body

    @property
    def bodies(self) -> list[Body]:
        return [self.body(member) for member in range(len(self._bodies))]

    @property
    def rcode(self) -> int:
        """The same whoever is named: members exist."""
        return self.body(0).flags & 0xF


def assemble(
    body: Body,
    query_flags: int,
    edns: Edns | None,
    rcode: int | None = None,
    payload: int = OUR_PAYLOAD,
    options: bytes = b"",
) -> Variant:
    """Head and tail of the response with ``body`` to a query with these flags and this OPT.

    ``rcode`` overrules the body's. ``payload`` is what we receive, in bytes, ``options`` what our OPT holds. The opcode
    is copied, and RD if it is QUERY (RFC 1035 section 4.1.1); AD, CD and Z are clear (RFC 4035 section 3.1.6).
    """
    full = body.flags & 0xF if rcode is None else rcode
    copied = query_flags & OPCODE_MASK or query_flags & RD
    flags = QR | copied | (body.flags & ~0xF) | (full & 0xF)
    answers, authorities, additionals = body.counts
    opt = write_opt(edns, full, payload, options) if edns else b""
    counts = (1, answers, authorities, additionals + bool(opt))
    head = b"".join(number.to_bytes(2, "big") for number in (flags, *counts))
    return head, body.records + opt


def truncated(body: Body) -> Body:
    """The body that says: ask again over TCP. No record is left, so that no RRset is torn (RFC 2181 section 9)."""
    return Body(body.flags | TC, (0, 0, 0), b"")
