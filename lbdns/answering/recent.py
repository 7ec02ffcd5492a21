"""Queries that arrive again get the member they got before: a rotation counts clients, not datagrams. Pure.

A client that hears nothing repeats its query with the same id from the same port, and networks double datagrams.
Bounded memory: each query has one slot, which the next one that falls on it takes. So the busier the server, the
shorter its memory; it is meant for the moments in which something is lost.
"""

from __future__ import annotations

from array import array
from typing import Final

SLOTS: Final = 65_536
AGAIN: Final = 6.0  # s: resolvers repeat a query after 0.4 to 5 s


class Recent:
    """By the hash of client and message: the member handed out, and when."""

    __slots__ = ("marks", "members", "repeated", "times")

    def __init__(self) -> None:
        self.marks = array("q", bytes(8 * SLOTS))
        self.members = array("I", bytes(4 * SLOTS))
        self.times = array("d", bytes(8 * SLOTS))
        self.repeated = 0  # queries answered with what they got before

    @staticmethod
    def mark(host: str, port: int, query: bytes) -> int:
        """What tells this datagram from others."""
        return hash((host, port, query))

    def member(self, mark: int, now: float) -> int | None:
        """The member that the query with this mark was given, None if it is not a repeated one."""
        at = mark % SLOTS
        if self.marks[at] == mark and now - self.times[at] < AGAIN:
            return self.members[at]
        return None

    def note(self, mark: int, member: int, now: float) -> None:
        at = mark % SLOTS
        self.marks[at], self.members[at], self.times[at] = mark, member, now
