"""Tests of the agent's messages to a service manager, alone and in a running agent."""

from __future__ import annotations

import math
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_agent.service_state import ServiceState
from lbdns_shared.keys import agent_line, new_master_key
from tests.end_to_end.process import python, running


class Manager:
    def __init__(self, path: Path) -> None:
        # The kernel may keep only 10 messages, and drops the others: at one a second, this process may stall for 10 s
        self.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "2000000"}
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(path))
        self.sock.settimeout(60)

    def receive(self) -> str:
        return self.sock.recv(1000).decode().partition("\n")[0]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(tmp_path / "notify")
    yield found
    found.sock.close()


def test_messages(manager: Manager) -> None:
    state = ServiceState(100.0, manager.environment)
    assert state.alive_due == pytest.approx(101.0), "half of the manager's timeout"
    state.ready()
    state.alive(100.9)
    state.alive(101.25)
    assert state.alive_due == pytest.approx(102.25)
    state.reloading()
    state.ready()
    state.stopping()
    expected = ["READY=1", "WATCHDOG=1", "RELOADING=1", "READY=1", "STOPPING=1"]
    assert [manager.receive() for _ in expected] == expected


def test_without_a_manager_nothing_is_due() -> None:
    state = ServiceState(100.0, {})
    assert state.alive_due == math.inf
    for report in (state.ready, state.reloading, state.stopping):
        report()
    state.alive(1e9)


def test_a_running_agent(manager: Manager, tmp_path: Path) -> None:
    """Its interval is longer than the manager's timeout, so a message per report would not be enough."""
    key = tmp_path / "agent.key"
    key.touch(0o600)
    key.write_text(agent_line(new_master_key().agent_key("bilbo")))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.bind(("127.0.0.1", 0))
        port = collector.getsockname()[1]
        options = ("--collector", f"127.0.0.1:{port}", "--key-file", str(key), "--interval", "60", "--gateway", "off")
        with running(*python("lbdns_agent", *options), env=manager.environment) as agent:
            assert manager.receive() == "READY=1"
            assert [manager.receive() for _ in range(3)] == ["WATCHDOG=1"] * 3
            os.kill(agent.pid, signal.SIGHUP)
            told: list[str] = []
            while told[-1:] != ["READY=1"]:
                told.append(manager.receive())
            assert "RELOADING=1" in told
            assert agent.stop() == 0
            while told[-1] != "STOPPING=1":
                told.append(manager.receive())
