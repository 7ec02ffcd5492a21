"""The counters of a web server, and its ``server-status?auto`` page in the format of Apache's mod_status. Sans-I/O.

Apache HTTP Server 2.4 produces this format if ExtendedStatus is on (modules/generators/mod_status.c).
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Final

WAITING: Final = "_"
READING: Final = "R"
WRITING: Final = "W"


@dataclass(slots=True)
class Scoreboard:
    """The states and counters of a web server's workers. Any thread may call the methods."""

    workers: int
    accesses: int = 0
    bytes_sent: int = 0
    duration: float = 0.0  # seconds, summed over all requests
    _states: list[str] = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._states = [WAITING] * self.workers

    def set_state(self, worker: int, state: str) -> None:
        self._states[worker] = state  # each slot has one writer, so no lock is needed

    def count(self, bytes_sent: int, duration: float) -> None:
        """Count a request, given its duration in seconds and the length of its response body in bytes."""
        with self._lock:
            self.accesses += 1
            self.bytes_sent += bytes_sent
            self.duration += duration

    def page(self, uptime: float, cpu: os.times_result, load: tuple[float, float, float]) -> str:
        """Return the page ``server-status?auto``. ``uptime`` is in seconds; ``cpu`` is the result of ``os.times``."""
        with self._lock:
            accesses, sent, duration = self.accesses, self.bytes_sent, self.duration
        states = "".join(self._states)
        idle = states.count(WAITING)
        seconds = max(uptime, 1e-3)
        lines = [
            ("ServerVersion", "lbdns-demo"),
            ("ServerMPM", "threads"),
            ("ServerUptimeSeconds", int(uptime)),
            *(("Load" + minutes, f"{average:.2f}") for minutes, average in zip(("1", "5", "15"), load, strict=True)),
            ("Total Accesses", accesses),
            ("Total kBytes", sent // 1024),
            ("Total Duration", int(duration * 1000)),
            ("CPUUser", _short(cpu.user)),
            ("CPUSystem", _short(cpu.system)),
            ("CPUChildrenUser", _short(cpu.children_user)),
            ("CPUChildrenSystem", _short(cpu.children_system)),
            ("CPULoad", _short(100 * sum(cpu[:4]) / seconds)),
            ("Uptime", int(uptime)),
            ("ReqPerSec", _short(accesses / seconds)),
            ("BytesPerSec", _short(sent / seconds)),
            ("BytesPerReq", _short(sent / accesses if accesses else 0)),
            ("DurationPerReq", _short(1000 * duration / accesses if accesses else 0)),
            ("BusyWorkers", len(states) - idle),
            ("IdleWorkers", idle),
            ("Scoreboard", states),
        ]
        return "".join(f"{name}: {value}\n" for name, value in lines)


def _short(value: float) -> str:
    """Return a number in the format of mod_status: %g as in C, but without a zero before the decimal point."""
    text = f"{value:.6g}"
    return text[1:] if text.startswith("0.") else text
