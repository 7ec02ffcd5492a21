"""Runs a real lbdns-collector as a separate process on free loopback ports."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # seconds: generous, because a machine that runs all tests at once is slow


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Wait until ``condition`` returns a true value, and return that value. Fails after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited {PATIENCE:.0f} s in vain: {what}")


class RunningCollector:
    """A running collector: its process, the addresses that it logged, and all its log lines."""

    def __init__(self, config: Path) -> None:
        command = [sys.executable, "-m", "lbdns_collector", "-c", str(config), "--log-format", "json"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.log: list[dict[str, Any]] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_for_log("ready")
        self.reports = self.address("receiving reports on")
        self.web = self.address("serving http://")

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self._lines.put(line)

    def address(self, after: str) -> tuple[str, int]:
        """Return the address after the text ``after`` in the newest log line that contains this text."""
        line = next(m for m in reversed(self.messages()) if after in m)
        found = re.search(re.escape(after) + r"\s*\[?([0-9a-f.:]+?)\]?:(\d+)", line)
        assert found, line
        return found[1], int(found[2])

    def messages(self) -> list[str]:
        with contextlib.suppress(queue.Empty):
            while True:
                line = self._lines.get_nowait()
                assert line.startswith("{"), f"not a log line: {line}"
                self.log.append(json.loads(line))
        return [entry["message"] for entry in self.log]

    def wait_for_log(self, text: str, count: int = 1) -> None:
        """Wait until at least ``count`` log lines contain ``text``."""

        def is_there() -> bool:
            assert self.process.poll() is None or self._lines.qsize(), f"ended too soon: {self.messages()}"
            return sum(text in message for message in self.messages()) >= count

        eventually(is_there, f"{text!r} in the log: {self.messages()}")

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.web[0]}:{self.web[1]}{path}", timeout=PATIENCE) as response:
            return str(response.read().decode())

    def status(self) -> dict[str, dict[str, Any]]:
        """Return the members of the first pool, keyed by name."""
        return {member["name"]: member for member in json.loads(self.get("/api/v1/status"))["pools"][0]["members"]}

    def count(self, result: str) -> int:
        """Return the value of lbdns_reports_total for one result."""
        found = re.search(rf'^lbdns_reports_total{{result="{result}"}} (\S+)$', self.get("/metrics"), re.MULTILINE)
        assert found, f"no count of {result}"
        return int(float(found[1]))

    def send(self, *datagrams: bytes, source: str = "127.0.0.1") -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((source, 0))
            for datagram in datagrams:
                sender.sendto(datagram, self.reports)

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to the process, wait, and return its exit status."""
        self.process.send_signal(how)
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self.messages()
        return status


@contextlib.contextmanager
def running(config: Path) -> Iterator[RunningCollector]:
    collector = RunningCollector(config)
    try:
        yield collector
    finally:
        if collector.process.poll() is None:
            collector.process.kill()
            collector.process.wait(PATIENCE)
