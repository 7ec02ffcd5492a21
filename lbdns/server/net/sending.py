"""Zone transfers on their way out: a message at a time, so that queries never wait longer than it takes to make one."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

AT_ONCE: Final = 8  # transfers begun on one listening socket; each holds a send buffer, and perhaps a zone of before


class Sender(Protocol):
    def send_one(self) -> bool:
        """Send the next message; whether there may be another at once: False at the end, or if the client is to read
        first."""


class Queue:
    """Takes turns between senders, one message each time the loop comes round; those over AT_ONCE wait in line."""

    def __init__(self) -> None:
        self._begun: set[Sender] = set()
        self._waiting: deque[Sender] = deque()
        self._ready: deque[Sender] = deque()
        self._scheduled = False

    def begin(self, sender: Sender) -> None:
        self._waiting.append(sender)
        self._promote()

    def go_on(self, sender: Sender) -> None:
        """The client has read."""
        if sender in self._begun and sender not in self._ready:
            self._ready.append(sender)
            self._schedule()

    def end(self, sender: Sender) -> None:
        """Forget a sender, wherever it stands."""
        self._begun.discard(sender)
        for line in (self._waiting, self._ready):
            if sender in line:
                line.remove(sender)
        self._promote()

    def _promote(self) -> None:
        while self._waiting and len(self._begun) < AT_ONCE:
            sender = self._waiting.popleft()
            self._begun.add(sender)
            self.go_on(sender)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._ready:
            sender = self._ready.popleft()
            if sender.send_one():
                self.go_on(sender)
        if self._ready:
            self._schedule()
