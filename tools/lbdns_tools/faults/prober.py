"""Repeats a probe during a fault, and judges whether nearly all probes succeeded in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from lbdns_tools.bench.dns.latency_prober import query_wire
from lbdns_tools.faults.fault_bed import FaultBed

TIMELY_S: Final = 3.0  # s within which a probe must succeed
MISSED: Final = 0.1  # share of the probes that may fail or be late


class Prober:
    """A thread that repeats a probe for the duration of a with statement, and records the duration of each successful
    probe.
    """

    def __init__(self, probe: Callable[[], bool], period: float = 0.2) -> None:
        self.times: list[float] = []
        self.failures = 0
        self._probe, self._period = probe, period
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prober", daemon=True)

    def __enter__(self) -> Prober:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def count(self) -> int:
        return len(self.times) + self.failures

    def _run(self) -> None:
        while not self._over.wait(self._period):
            began = time.monotonic()
            if self._probe():
                self.times.append(time.monotonic() - began)
            else:
                self.failures += 1


def judge(bed: FaultBed, prober: Prober, what: str) -> None:
    """Record a problem unless nearly all probes succeeded in time."""
    late = sum(time > TIMELY_S for time in prober.times)
    bed.expect(prober.count > 0, f"{what}: the prober made no attempts")
    bed.expect(
        late + prober.failures <= MISSED * prober.count,
        f"{what}: {prober.failures} of {prober.count} probes failed, {late} took longer than {TIMELY_S:g} s",
    )


def answers_over_tcp(port: int, seconds: float = 2.0) -> bool:
    """Return whether the server answers one query over a new TCP connection within ``seconds``."""
    wire = query_wire("best.hobbit")
    try:
        with socket.create_connection(("127.0.0.1", port), seconds) as sock:
            sock.sendall(len(wire).to_bytes(2, "big") + wire)
            return len(sock.recv(2)) > 0
    except OSError:
        return False


def tcp_is_answered(bed: FaultBed) -> Callable[[], bool]:
    """Return a probe that checks whether the server answers a query over TCP within TIMELY_S."""
    return lambda: answers_over_tcp(bed.farm.port, TIMELY_S)
