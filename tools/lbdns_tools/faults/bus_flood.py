"""A flood of garbled, forged and repeated reports that one agent publishes on a bus under its own subject."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from random import Random
from typing import Final, Self

from lbdns_agent.bus.nats_messages import PONG, connect_message, publish_message
from lbdns_shared.bus_subject import report_subject
from lbdns_shared.keys import MasterKey, new_master_key
from lbdns_shared.report import Report, encode
from lbdns_tools.faults.background_thread import background_thread
from lbdns_tools.nats_servers import NatsServers

RATE: Final = 2000.0  # messages/s
STEP_S: Final = 0.02  # s between two bursts
#: The reasons why a collector must reject them
REASONS: Final = ("malformed", "wrong_subject", "bad_tag", "replay", "clock")
OLD_S: Final = 60.0  # s, more than the clocks may differ


def reports(host: str, other: str, key: MasterKey, chance: Random) -> list[bytes]:
    """Return one datagram for each of REASONS. ``key`` is the collector's key."""
    agent_key = key.agent_key(host)

    def report(name: str, at: float) -> Report:
        return Report(name, chance.getrandbits(60), 1, at, 1.0, {"run_queue": 1.0})

    now = time.time()
    return [
        chance.randbytes(300),
        encode(report(other, now), key.agent_key(other)),
        encode(report(host, now), new_master_key().agent_key(host)),
        encode(report(host, now - OLD_S / 4), agent_key),  # older than the agent's newest report
        encode(report(host, now - OLD_S), agent_key),
    ]


class BusFlood:
    """Publishes RATE messages per second as user ``host`` for the duration of a with statement.

    ``published`` is the number of messages so far.
    """

    def __init__(self, nats: NatsServers, host: str, key: MasterKey, chance: Random) -> None:
        self.published = 0
        self._nats, self._host = nats, host
        other = next(each for each in nats.hosts if each != host)
        subject = report_subject("web", host)
        self._burst = b"".join(publish_message(subject, each) for each in reports(host, other, key, chance))
        self._thread = background_thread("bus-flood", self._run)

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.__exit__(None, None, None)

    def _run(self, over: threading.Event) -> None:
        with socket.create_connection(("127.0.0.1", self._nats.nodes[0].port), 5.0) as sock:
            sock.sendall(connect_message("flood", "1", False, {"user": self._host, "pass": self._host}))
            sock.setblocking(False)
            began = time.monotonic()
            while not over.wait(STEP_S):
                sock.settimeout(5.0)
                while self.published < RATE * (time.monotonic() - began):
                    sock.sendall(self._burst)
                    self.published += len(REASONS)
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    if b"PING" in sock.recv(65536):
                        sock.sendall(PONG)
