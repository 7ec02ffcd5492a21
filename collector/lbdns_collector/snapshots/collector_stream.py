"""One collector's messages in order: refuses replays, notices lost messages, and asks for whole snapshots. Sans-I/O.

A collector's changes count only once a part of its whole snapshot has arrived with the nonce of this receiver's own
request: this proves that the collector is running, and gives the number from which its messages count. Recorded
messages of a collector can therefore not be replayed, not even to a receiver that has just started.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from lbdns_collector.snapshots.snapshot_messages import SnapshotMessage

DEAD_AFTER: Final = 3.0  # seconds without a message, of which each collector sends at least one a second
ASK_AGAIN: Final = 2.0  # seconds until a request without a reply is repeated
MAX_WAITING: Final = 256  # messages that wait for the first part; the newest are dropped, and then count as lost


class CollectorStream:
    """The messages of one run of a collector. ``counts`` are the receiver's counts of messages, by result."""

    def __init__(self, name: str, boot: int, counts: Counter[str], now: float) -> None:
        self.name, self.boot = name, boot
        self.found = now  # when the first message arrived, monotonic seconds
        self.is_whole = False  # whether a whole snapshot has arrived
        self.heard = float("-inf")  # when the last accepted message arrived, monotonic seconds
        self._counts = counts
        self._last: int | None = None  # the number of the last message with changes; None before the first part
        self._waiting: list[SnapshotMessage] = []
        self._needs_whole = True
        self._is_open = False  # whether the first part has arrived, but not the last one
        self._asked = float("-inf")  # monotonic seconds
        self._series: tuple[bytes, int] = (b"", 0)  # of parts: the nonce, and the index of the next part

    def is_alive(self, now: float) -> bool:
        return now - self.heard < DEAD_AFTER

    def wants_whole(self, now: float) -> bool:
        """Return whether to ask the collector for its whole snapshot now. The caller then calls ``note_asked``."""
        return (self._needs_whole or self._is_open) and now - self._asked >= ASK_AGAIN

    def note_asked(self, now: float) -> None:
        self._asked = now

    def want_whole(self) -> None:
        """Ask for a whole snapshot, although no message was lost."""
        self._needs_whole = True

    def take_changes(self, message: SnapshotMessage, now: float) -> list[SnapshotMessage]:
        """Return the messages to merge after the arrival of a message with changes: ``message``, or nothing."""
        if self._last is None:
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append(message)
            return []
        if message.seq <= self._last:
            self._counts["replay"] += 1
            return []
        if missing := message.seq - self._last - 1:
            self._counts["lost"] += missing
            self._needs_whole = True
        self._last, self.heard = message.seq, now
        self._counts["accepted"] += 1
        return [message]

    def take_part(self, part: SnapshotMessage, now: float) -> list[SnapshotMessage]:
        """Return the messages to merge after the arrival of a part, whose nonce the caller has checked.

        The first part is followed by the changes that have waited for it.
        """
        nonce, index = self._series
        if part.index != (index if part.nonce == nonce else 0):
            # Either a replay, or a part before it was lost: then the series is asked for again
            self._counts["replay" if part.nonce == nonce and part.index < index else "lost"] += 1
            return []
        self._series = part.nonce, part.index + 1
        self._asked = self.heard = now
        self._counts["accepted"] += 1
        if part.index == 0:  # messages that are lost from now on require another whole snapshot
            self._needs_whole, self._is_open = False, True
            self._last = part.seq if self._last is None else max(self._last, part.seq)
        if part.is_last:
            self.is_whole, self._is_open = True, False
        ready = [part]
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            if message.seq > part.seq:
                ready += self.take_changes(message, now)
        return ready
