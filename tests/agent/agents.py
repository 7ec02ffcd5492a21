"""Runs real agents and receives their reports."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lbdns_shared.report import AgentKey, Report, decode_body, open_envelope

NAME = "gandalf"
#: Nothing that isn't tested: no questions to others, no alarm that a busy machine may set off.
QUIET = ("--gateway", "off", "--server-status", "off", "--alarm", "off")


@dataclass
class Receiver:
    """A collector's socket, with the received reports and their arrival times (on the monotonic clock, in seconds)."""

    socket: socket.socket
    reports: list[Report] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    @property
    def where(self) -> str:
        host, port = self.socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def take(self, longest: float = 60.0, key: AgentKey | None = None) -> Report:
        """Return the next report, after checking its tag with ``key``."""
        self.socket.settimeout(longest)
        envelope = open_envelope(self.socket.recv(2000))
        assert envelope.host == NAME
        assert envelope.signed_by(key) if key else envelope.tag == bytes(16)
        self.reports.append(decode_body(envelope))
        self.times.append(time.monotonic())
        return self.reports[-1]

    def until(self, kind: str, longest: float = 60.0) -> Report:
        """Return the next report of a kind, skipping all others."""
        end = time.monotonic() + longest
        while (report := self.take(longest)).kind != kind:
            assert time.monotonic() < end, f"there is no {kind!r}"
        return report


@contextlib.contextmanager
def receiver(host: str = "127.0.0.1", port: int = 0) -> Iterator[Receiver]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as opened:
        opened.bind((host, port))
        yield Receiver(opened)


class RunningAgent:
    """An agent process that writes its log to a file."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "lbdns_agent", "--name", NAME, *arguments]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
        with log.open("w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def lines(self, text: str) -> int:
        """Return the number of log lines that contain ``text``."""
        return sum(text in line for line in self.log.splitlines())

    def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to the agent, and return the agent's exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextlib.contextmanager
def agent(folder: Path, *arguments: str) -> Iterator[RunningAgent]:
    """Run an agent; at the end, check that it has not logged a traceback."""
    running = RunningAgent(folder / "agent.log", *arguments)
    try:
        yield running
        assert "Traceback" not in running.log, running.log
    finally:
        running.process.kill()
        running.process.wait()
