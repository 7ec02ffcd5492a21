"""Receives the snapshots of all collectors on a bus: opens their messages, merges them, and decides whom to ask.

Sans-I/O.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from lbdns.bus.signed_message import MessageKeys, RefusedMessageError
from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMember, JoinedMembers
from lbdns.model.overrides import Override
from lbdns_collector.snapshots.collector_stream import ASK_AGAIN, CollectorStream
from lbdns_collector.snapshots.merged_readings import MergedReadings
from lbdns_collector.snapshots.snapshot_messages import (
    MAX_SKEW,
    NONCE_LENGTH,
    SnapshotMessage,
    SnapshotRequest,
    read_message,
    reply_subject,
)

FORGET: Final = 120.0  # seconds after which a silent collector is forgotten; the clock check refuses its messages then
NONCE_LASTS: Final = 30.0  # seconds after the last request during which replies to it are accepted
MAX_COLLECTORS: Final = 100  # runs of collectors; messages of further ones are ignored


class SnapshotReceiver:
    """The merged snapshot of all collectors."""

    def __init__(self, keys: MessageKeys) -> None:
        self.keys = keys
        #: Messages by result: "accepted", or malformed, bad_tag, clock, replay; and "lost", which never arrived
        self.counts: Counter[str] = Counter()
        self.readings = MergedReadings()
        self._id = secrets.token_hex(8)
        self._streams: dict[int, CollectorStream] = {}  # by boot
        self._nonces: dict[bytes, float] = {}  # of our requests, and when they were made (monotonic seconds)
        self._overrides: dict[str, tuple[Override, ...]] = {}  # by the collector's name
        self._joined: dict[int, tuple[JoinedMember, ...]] = {}  # by boot
        self._asked_all = float("-inf")  # monotonic seconds
        self._must_ask_all = True
        self._last_joined = NO_JOINED_MEMBERS

    @property
    def reply_subject(self) -> str:
        """The subject to which collectors reply."""
        return reply_subject(self._id)

    def alive(self, now: float) -> list[str]:
        """Return the names of the collectors whose whole snapshot has arrived, and which still send messages."""
        return sorted(stream.name for stream in self._streams.values() if stream.is_whole and stream.is_alive(now))

    def take(self, data: bytes, now: float, wall: float) -> SnapshotMessage | None:
        """Receive a message, and merge it. Return it if it may have changed anything, or None. Never raises.

        ``now`` is in monotonic seconds, and ``wall`` in Unix seconds.
        """
        try:
            message = read_message(self.keys.open(data), now)
        except RefusedMessageError as error:
            self.counts[error.reason] += 1
            return None
        except ValueError:
            self.counts["malformed"] += 1
            return None
        if abs(message.time - wall) > MAX_SKEW:
            self.counts["clock"] += 1
            return None
        stream = self._stream(message, now)
        if stream is None:
            return None
        if not message.nonce:
            ready = stream.take_changes(message, now)
        elif now - self._nonces.get(message.nonce, float("-inf")) <= NONCE_LASTS:
            self._nonces[message.nonce] = now  # a long series may take its time
            ready = stream.take_part(message, now)
        else:
            self.counts["replay"] += 1
            return None
        for each in ready:
            self._merge(each, now)
        return message if ready else None

    def requests(self, now: float, wall: float) -> Iterable[bytes]:
        """Return the signed requests that are due. Call this method often."""
        self._nonces = {nonce: at for nonce, at in self._nonces.items() if now - at <= NONCE_LASTS}
        self._streams = {
            boot: stream for boot, stream in self._streams.items() if now - max(stream.heard, stream.found) < FORGET
        }
        if self._must_ask_all or (not self.alive(now) and now - self._asked_all >= ASK_AGAIN):
            self._must_ask_all, self._asked_all = False, now
            for stream in self._streams.values():
                stream.note_asked(now)
            yield self._request(None, now, wall)
            return
        for stream in self._streams.values():
            if stream.wants_whole(now):
                stream.note_asked(now)
                yield self._request(stream.boot, now, wall)

    def ask_everybody(self) -> None:
        """Ask all collectors for whole snapshots, because messages may have been lost."""
        self._must_ask_all = True
        for stream in self._streams.values():
            stream.want_whole()

    def overrides(self) -> Sequence[Override]:
        """Return the overrides of all collectors. Of two for the same place, the one that was set later counts.

        The overrides of a silent collector remain until a collector of the same name sends its own.
        """
        found: dict[tuple[str, str, str], Override] = {}
        for _, overrides in sorted(self._overrides.items()):
            for override in overrides:
                known = found.get(override.place)
                if known is None or override.since > known.since:
                    found[override.place] = override
        return list(found.values())

    def joined(self, now: float) -> JoinedMembers:
        """Return the members that have joined at any collector that is alive.

        While none is alive, these are the members as before.
        """
        alive = [boot for boot, stream in self._streams.items() if stream.is_whole and stream.is_alive(now)]
        if alive:
            put = [member for boot in sorted(alive) for member in self._joined.get(boot, ())]
            self._last_joined = NO_JOINED_MEMBERS.changed(put=put)
        return self._last_joined

    def _stream(self, message: SnapshotMessage, now: float) -> CollectorStream | None:
        stream = self._streams.get(message.boot)
        if stream is None and len(self._streams) < MAX_COLLECTORS:
            stream = self._streams[message.boot] = CollectorStream(message.collector, message.boot, self.counts, now)
        return stream

    def _merge(self, message: SnapshotMessage, now: float) -> None:
        def is_alive(boot: int) -> bool:
            stream = self._streams.get(boot)
            return stream is not None and stream.is_alive(now)

        self.readings.merge(message, is_alive)
        if message.overrides is not None:
            self._overrides[message.collector] = message.overrides
        if message.joined is not None:
            self._joined[message.boot] = message.joined
            self._joined = {boot: joined for boot, joined in self._joined.items() if boot in self._streams}

    def _request(self, boot: int | None, now: float, wall: float) -> bytes:
        nonce = secrets.token_bytes(NONCE_LENGTH)
        self._nonces[nonce] = now
        return self.keys.seal(SnapshotRequest(self._id, nonce, wall, boot).body())
