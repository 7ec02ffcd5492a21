"""The upstream response reader: decides which messages answer our query, and which records reach the client. Pure.

The reader is as strict as the query reader. The reader does a bounded amount of work, because it reads each name only
once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.answering.dns_constants import AA, HEADER_LENGTH, OPCODE_MASK, QR, RA, TC, Rcode, Type
from lbdns.answering.query_reader import skip_name
from lbdns.zones.names import MAX_LABEL

_HEADER: Final = struct.Struct("!HHHHHH")
_RR_FIXED: Final = struct.Struct("!HHIH")
#: RCODEs that settle the question; after any other, the next upstream may do better.
_GOOD: Final = frozenset((Rcode.NOERROR, Rcode.NXDOMAIN, Rcode.YXDOMAIN))


@dataclass(frozen=True, slots=True)
class UpstreamResponse:
    """An upstream's well-formed answer to our query, without its OPT record.

    ``owners`` lists the offsets in ``records`` at which the question's name occurs, uncompressed and in our query's
    letter case.
    """

    flags: int
    rcode: int  # with the upper bits of the OPT record
    question: bytes
    counts: tuple[int, int, int]
    records: bytes
    owners: tuple[int, ...] = ()

    @property
    def failed(self) -> bool:
        """Return whether the response fails to answer the question, in which case the next upstream is queried.

        A response with neither RA nor AA set is a referral from a server that neither offers recursion nor serves the
        zone.
        """
        return self.rcode not in _GOOD or bool(self.flags & TC) or not self.flags & (RA | AA)

    @property
    def truncated(self) -> bool:
        """Return whether the complete answer is available only over TCP."""
        return bool(self.flags & TC)


def read_upstream_response(query: bytes, message: bytes) -> UpstreamResponse | None:
    """Parse ``message`` as the response to our ``query``; return None if it is malformed or answers another query.

    The function ignores the letter case of names. To compare letter case too, call ``same_case``.
    """
    end = skip_name(query, HEADER_LENGTH) + 4
    if len(message) < end or message[:2] != query[:2]:
        return None
    _, flags, questions, *counts = _HEADER.unpack_from(message)
    if not flags & QR or flags & OPCODE_MASK or questions != 1:
        return None
    if (
        message[HEADER_LENGTH:end].lower() != query[HEADER_LENGTH:end].lower()
        or message[end - 4 : end] != query[end - 4 : end]
    ):
        return None
    if flags & TC:  # perhaps in the middle of a record; no record is used in any case
        return UpstreamResponse(flags, flags & 0xF, message[HEADER_LENGTH:end], (0, 0, 0), b"")
    return _read_records(message, end, flags, counts)


def same_case(query: bytes, message: bytes) -> bool:
    """Return whether the answer repeats our query's letter case, which an off-path attacker can only guess."""
    end = skip_name(query, HEADER_LENGTH)
    return message[HEADER_LENGTH:end] == query[HEADER_LENGTH:end]


def _read_records(message: bytes, start: int, flags: int, counts: Sequence[int]) -> UpstreamResponse | None:
    """Return the response without OPT and all later records, which the client does not need; None if malformed."""
    name = message[HEADER_LENGTH : start - 4].lower()
    owners: list[int] = []
    at, kept, rcode, opt_at = start, list(counts), flags & 0xF, 0
    known: set[int] = set()
    _name_end(message, HEADER_LENGTH, known)
    for section, count in enumerate(counts):
        for number in range(count):
            owner = at
            at = _name_end(message, at, known)
            if not at or at + _RR_FIXED.size > len(message):
                return None
            rtype, _, ttl, length = _RR_FIXED.unpack_from(message, at)
            if message[owner:at].lower() == name and not opt_at:
                owners.append(owner - start)
            at += _RR_FIXED.size + length
            if at > len(message):
                return None
            if rtype == Type.OPT:
                if section != 2 or opt_at or message[owner]:
                    return None
                opt_at, kept[2], rcode = owner, number, rcode | ttl >> 24 << 4
    if at != len(message):
        return None
    records = message[start : opt_at or at]
    return UpstreamResponse(
        flags, rcode, message[HEADER_LENGTH:start], (kept[0], kept[1], kept[2]), records, tuple(owners)
    )


def _name_end(message: bytes, at: int, known: set[int]) -> int:
    """Return the end offset of the name at offset ``at`` (0 if the name is malformed).

    ``known`` contains the offsets of labels that have been read before.
    """
    end, bound = 0, at
    passed: list[int] = []
    while at < len(message) and at not in known:
        passed.append(at)
        length = message[at]
        if length >= 0xC0:
            end = end or at + 2
            target = int.from_bytes(message[at : at + 2], "big") & 0x3FFF
            if at + 2 > len(message) or not HEADER_LENGTH <= target < bound:
                return 0
            at = bound = target
        elif length > MAX_LABEL:
            return 0
        elif length:
            at += 1 + length
        else:
            known.update(passed)
            return end or at + 1
    if at >= len(message):
        return 0
    known.update(passed)
    return end
