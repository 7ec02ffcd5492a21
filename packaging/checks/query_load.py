"""Sends queries over UDP at a constant rate until SIGTERM, and prints how many were answered and lost as JSON.

Arguments: queries per second, and a file that is created once the server answers. Exit status 1 if a query is lost.
"""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import select
import signal
import socket
import sys
import time

SO_RCVBUFFORCE = 33  # of Linux; needs CAP_NET_ADMIN
SERVER = ("127.0.0.1", 53)
#: best.example.com A, without the ID
QUESTION = b"\0\0\0\1\0\0\0\0\0\0\4best\7example\3com\0\0\1\0\1"
PORTS = 8  # of the client, so that the numbers of the queries in flight are distinct
LAST_ANSWERS = 10.0  # s to wait for the last answers
LONGEST = 300.0  # s
#: A client that the machine keeps from running must not send all queries at once that it could not send meanwhile
MOST_LATE = 0.05  # s


class QueryLoad:
    """Sends ``rate`` queries per second, and counts their answers."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(PORTS)]
        for sock in self.sockets:
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
            sock.setblocking(False)
            sock.connect(SERVER)
        self.in_flight: dict[tuple[int, bytes], float] = {}  # (socket's place, ID) -> when it was sent
        self.counts: collections.Counter[str] = collections.Counter(sent=0, answered=0, refused=0, unexpected=0)
        self.longest = 0.0
        self.goes_on = True

    def run(self, ready: pathlib.Path) -> bool:
        """Send until ``goes_on`` is false, print the counts, and return whether each query was answered.

        The file ``ready`` is created after the first answer.
        """
        began = due = time.monotonic()
        while self.goes_on and time.monotonic() - began < LONGEST:
            now = time.monotonic()
            due = max(due, now - MOST_LATE)
            while due <= now:
                self.send(now)
                due += 1 / self.rate
            self.receive(0.002)
            if self.counts["answered"] and not ready.exists():
                ready.touch()
        seconds = time.monotonic() - began
        end = time.monotonic() + LAST_ANSWERS
        while self.in_flight and time.monotonic() < end:
            self.receive(0.1)
        rate, lost = round(self.counts["sent"] / seconds), len(self.in_flight) + self.counts["refused"]
        print(json.dumps({**self.counts, "lost": lost, "rate": rate, "longest_s": round(self.longest, 3)}))
        return lost == 0 and self.counts["answered"] == self.counts["sent"] > 0 and not self.counts["unexpected"]

    def send(self, now: float) -> None:
        number = self.counts["sent"]
        self.counts["sent"] += 1
        place, identity = number % PORTS, (number // PORTS & 0xFFFF).to_bytes(2, "big")
        try:
            self.sockets[place].send(identity + QUESTION)
        except OSError:  # no server has opened the port, or the answer to an earlier query was an ICMP error
            self.counts["refused"] += 1
        else:
            self.in_flight[place, identity] = now

    def receive(self, timeout: float) -> None:
        for sock in select.select(self.sockets, [], [], timeout)[0]:
            with contextlib.suppress(OSError):  # nothing left, or an ICMP error: its query is counted as lost
                while True:
                    self.count(self.sockets.index(sock), sock.recv(512))

    def count(self, place: int, answer: bytes) -> None:
        sent = self.in_flight.pop((place, answer[:2]), None)
        if sent is None or answer[3] & 15 or not answer[7]:
            self.counts["unexpected"] += 1
        else:
            self.counts["answered"] += 1
            self.longest = max(self.longest, time.monotonic() - sent)


def main() -> int:
    load = QueryLoad(float(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: setattr(load, "goes_on", False))
    return 0 if load.run(pathlib.Path(sys.argv[2])) else 1


if __name__ == "__main__":
    sys.exit(main())
