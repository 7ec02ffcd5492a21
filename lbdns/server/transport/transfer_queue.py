"""The transfer queue: lets connections take turns sending zone transfers, without delaying other connections' queries
for long."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

TRANSFERS_AT_ONCE: Final = 8  # in progress per listening socket; each holds a send buffer, and perhaps an old zone


class TransferSender(Protocol):
    """A connection that sends a zone transfer."""

    def send_one(self) -> bool:
        """Send the next message of the transfer. Return whether another message can be sent immediately.

        The result is False at the end of the transfer, or if the client is not reading.
        """


class TransferQueue:
    """Lets connections take turns sending zone transfers, one message per iteration of the event loop.

    A query therefore waits for at most one transfer message. At most TRANSFERS_AT_ONCE transfers are in progress at a
    time; all other transfers wait.
    """

    def __init__(self) -> None:
        self._begun: set[TransferSender] = set()
        self._waiting: deque[TransferSender] = deque()
        self._ready: deque[TransferSender] = deque()
        self._scheduled = False

    def begin(self, sender: TransferSender) -> None:
        """Add a sender. The caller must call ``end`` when the transfer has ended or the connection is closed."""
        self._waiting.append(sender)
        self._promote()

    def resume(self, sender: TransferSender) -> None:
        """Continue a transfer after the client has read more data."""
        if sender in self._begun and sender not in self._ready:
            self._ready.append(sender)
            self._schedule()

    def end(self, sender: TransferSender) -> None:
        self._begun.discard(sender)
        for line in (self._waiting, self._ready):
            if sender in line:
                line.remove(sender)
        self._promote()

    def _promote(self) -> None:
        while self._waiting and len(self._begun) < TRANSFERS_AT_ONCE:
            sender = self._waiting.popleft()
            self._begun.add(sender)
            self.resume(sender)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._ready:
            sender = self._ready.popleft()
            if sender.send_one():
                self.resume(sender)
        if self._ready:
            self._schedule()
