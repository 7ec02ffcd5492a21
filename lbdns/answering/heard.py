"""What an upstream said: which messages are answers to our query, and what of them is worth handing on. Pure.

Strict as the reader of queries is, and of bounded work: each name is read once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.answering.constants import AA, HEADER_LENGTH, OPCODE_MASK, QR, RA, TC, Rcode, Type
from lbdns.answering.query import skip_name
from lbdns.names import MAX_LABEL

_HEADER: Final = struct.Struct("!HHHHHH")
_RR_FIXED: Final = struct.Struct("!HHIH")
#: Answers that say something of the name; with any other RCODE the next upstream may do better.
_GOOD: Final = frozenset((Rcode.NOERROR, Rcode.NXDOMAIN, Rcode.YXDOMAIN))


@dataclass(frozen=True, slots=True)
class Heard:
    """An upstream's answer to our question: sound, and without its OPT. ``owners`` are places in ``records`` where
    the name asked for stands in full, in the letter case of our query."""

    flags: int
    rcode: int  # with its upper bits
    question: bytes
    counts: tuple[int, int, int]
    records: bytes
    owners: tuple[int, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether it says nothing of the name, so that another upstream is worth a try. A server that neither knows
        the zone nor looks elsewhere only says where it would ask."""
        return self.rcode not in _GOOD or bool(self.flags & TC) or not self.flags & (RA | AA)

    @property
    def cut(self) -> bool:
        """Whether the whole of it is to be had over TCP."""
        return bool(self.flags & TC)


def hear(asked: bytes, message: bytes) -> Heard | None:
    """Read ``message`` as the answer to our query ``asked``; None if it isn't, or is malformed.

    The letter case is not looked at here: ``same_case`` does.
    """
    end = skip_name(asked, HEADER_LENGTH) + 4
    if len(message) < end or message[:2] != asked[:2]:
        return None
    _, flags, questions, *counts = _HEADER.unpack_from(message)
    if not flags & QR or flags & OPCODE_MASK or questions != 1:
        return None
    if (
        message[HEADER_LENGTH:end].lower() != asked[HEADER_LENGTH:end].lower()
        or message[end - 4 : end] != asked[end - 4 : end]
    ):
        return None
    if flags & TC:  # perhaps in the middle of a record; nothing of it is used in any case
        return Heard(flags, flags & 0xF, message[HEADER_LENGTH:end], (0, 0, 0), b"")
    return _read_records(message, end, flags, counts)


def same_case(asked: bytes, message: bytes) -> bool:
    """Whether an answer repeats the name as we wrote it: who didn't see the query can only guess that."""
    end = skip_name(asked, HEADER_LENGTH)
    return message[HEADER_LENGTH:end] == asked[HEADER_LENGTH:end]


def _read_records(message: bytes, start: int, flags: int, counts: Sequence[int]) -> Heard | None:
    """Walk all records. Ours end before the OPT: what still comes behind it is additional, and nobody needs it."""
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
    return Heard(flags, rcode, message[HEADER_LENGTH:start], (kept[0], kept[1], kept[2]), records, tuple(owners))


def _name_end(message: bytes, at: int, known: set[int]) -> int:
    """Where an owner name ends, or 0 if it is cut or no name. Pointers have to lead back to a name, so that whoever
    follows them comes to an end. ``known`` are places where one has been read: each is read once."""
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
