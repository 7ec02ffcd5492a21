"""Merges the readings of several collectors: of each member, the reading from its newest report counts. Sans-I/O.

Collectors that hear the same report give it the same rank. The collector whose message brings the report first owns the
member's reading: only its later messages may change the reading, for example after a failed check, until a newer report
arrives. Otherwise, two collectors that disagree about a check would change it to and fro. If the owner has fallen
silent, any other collector may change the reading, and then owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from lbdns.model.snapshot import Reading
from lbdns_collector.snapshots.snapshot_messages import ReportRank, SnapshotMessage


class _Owned(NamedTuple):
    reading: Reading
    rank: ReportRank
    owner: int  # the collector's boot
    seq: int  # of the message


class MergedReadings:
    """The readings of all members that any collector knows."""

    def __init__(self) -> None:
        self._members: dict[str, _Owned] = {}
        self._changed: dict[str, Reading] = {}  # since the last call of ``take_changed``

    def merge(self, message: SnapshotMessage, is_alive: Callable[[int], bool]) -> None:
        """Take the newer readings of ``message``.

        ``is_alive`` tells whether the collector with this boot still sends messages.
        """
        for name, (reading, rank) in message.members.items():
            known = self._members.get(name)
            if known is None or _replaces(message, rank, known, is_alive):
                self._members[name] = _Owned(reading, rank, message.boot, message.seq)
                self._changed[name] = reading

    def take_changed(self) -> Mapping[str, Reading]:
        """Return the readings that have changed since the last call, by full name."""
        found, self._changed = self._changed, {}
        return found

    def of(self, members: Collection[str]) -> Mapping[str, Reading]:
        """Return the readings of those of ``members`` (full names) that have one."""
        return {name: self._members[name].reading for name in members if name in self._members}

    def forget(self, members: Collection[str]) -> None:
        """Forget ``members`` (full names)."""
        for name in members:
            self._members.pop(name, None)
            self._changed.pop(name, None)

    def __len__(self) -> int:
        return len(self._members)


def _replaces(message: SnapshotMessage, rank: ReportRank, known: _Owned, is_alive: Callable[[int], bool]) -> bool:
    if rank.is_newer_than(known.rank):
        return True
    if known.rank.is_newer_than(rank):
        return False
    if message.boot == known.owner:
        return message.seq >= known.seq
    return not is_alive(known.owner)
