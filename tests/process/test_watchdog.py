"""Tests of the service manager's watchdog: signs of life come while the program is healthy, and only then."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns.process.watchdog import Watchdog
from tests.server.clients import until
from tests.shortage import no_descriptors_left

PERIOD = 0.02  # s


class Manager:
    """A service manager that counts the signs of life."""

    def __init__(self, path: Path) -> None:
        self.environment = {"NOTIFY_SOCKET": str(path)}
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(path))
        self.sock.setblocking(False)
        self._count = 0

    @property
    def count(self) -> int:
        while True:
            try:
                assert self.sock.recv(100) == b"WATCHDOG=1"
            except BlockingIOError:
                return self._count
            self._count += 1


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(tmp_path / "notify")
    yield found
    found.sock.close()


async def test_it_is_fed_only_while_healthy(manager: Manager, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lbdns")
    fault = ""
    watchdog = Watchdog(lambda: fault, PERIOD, manager.environment)
    await until(lambda: manager.count >= 3)
    fault = "worker 1 has ended"
    await until(lambda: caplog.records)
    before = manager.count
    await asyncio.sleep(10 * PERIOD)
    assert manager.count == before
    fault = ""
    await until(lambda: manager.count > before)
    watchdog.stop()
    assert [record.message for record in caplog.records] == [
        "unhealthy: worker 1 has ended; if this state lasts, the service manager's watchdog restarts the program",
        "healthy again",
    ]


async def test_it_needs_no_free_descriptor(manager: Manager) -> None:
    watchdog = Watchdog(lambda: "", PERIOD, manager.environment)
    with no_descriptors_left():
        before = manager.count
        await until(lambda: manager.count >= before + 3)
    watchdog.stop()


async def test_without_the_manager_nothing_happens(manager: Manager) -> None:
    manager.sock.close()
    watchdog = Watchdog(lambda: "", PERIOD, manager.environment)
    await asyncio.sleep(5 * PERIOD)
    watchdog.stop()
