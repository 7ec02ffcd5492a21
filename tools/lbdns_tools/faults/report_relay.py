"""A UDP relay between the agents and the collector that drops, delays, duplicates and stores reports."""

from __future__ import annotations

import heapq
import itertools
import select
import socket
import threading
import time
from random import Random
from typing import Final, Self

LARGEST: Final = 2048  # octets, more than a report may have
KEPT: Final = 10_000  # datagrams at most


class ReportRelay:
    """A relay that forwards datagrams to a local port for the duration of a with statement.

    ``loss`` and ``duplicates`` are probabilities; ``delay`` is the maximum random delay of a datagram in seconds. All
    three settings can be changed at any time. ``kept`` contains the newest datagrams in order of arrival.
    """

    def __init__(self, to_port: int, chance: Random) -> None:
        self.loss = self.duplicates = self.delay = 0.0
        self.kept: list[bytes] = []
        self.relayed = self.dropped = 0
        self._chance = chance
        self._to = ("127.0.0.1", to_port)
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(("127.0.0.1", 0))
        self._sock.setblocking(False)
        self._waiting: list[tuple[float, int, bytes]] = []
        self._order = itertools.count()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="report-relay", daemon=True)

    @property
    def port(self) -> int:
        return int(self._sock.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._sock.close()

    def replay(self) -> int:
        """Resend every datagram in ``kept`` in the original order, and return their number."""
        for datagram in self.kept:
            self._send(datagram)
        return len(self.kept)

    def _run(self) -> None:
        while not self._over.is_set():
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                self._send(heapq.heappop(self._waiting)[2])
            wait = min(0.1, self._waiting[0][0] - now) if self._waiting else 0.1
            if select.select([self._sock], [], [], max(0.0, wait))[0]:
                self._receive()

    def _receive(self) -> None:
        try:
            while True:
                datagram = self._sock.recv(LARGEST)
                self.kept = [*self.kept[-KEPT + 1 :], datagram]
                if self._chance.random() < self.loss:
                    self.dropped += 1
                    continue
                for _ in range(2 if self._chance.random() < self.duplicates else 1):
                    at = time.monotonic() + self._chance.uniform(0, self.delay)
                    heapq.heappush(self._waiting, (at, next(self._order), datagram))
        except OSError:
            return  # nothing more to read, or an earlier datagram was refused

    def _send(self, datagram: bytes) -> None:
        try:
            self._sock.sendto(datagram, self._to)
            self.relayed += 1
        except OSError:
            self.dropped += 1
