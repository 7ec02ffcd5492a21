"""Tests of the messages sent to a service manager."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lbdns.process.service_manager import READY, STOPPING, notify, ready, reloading


@pytest.mark.parametrize("abstract", [False, True])
def test_states_arrive(tmp_path: Path, abstract: bool) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = f"@lbdns-test-{os.getpid()}" if abstract else str(tmp_path / "n")
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(5)
        for state in (ready(42), reloading(), STOPPING):
            notify(state, {"NOTIFY_SOCKET": name})
            assert manager.recv(1000).decode() == state


def test_states() -> None:
    assert ready(42).split("\n") == [READY, "MAINPID=42"]
    state, stamp = reloading().split("\n")
    assert state == "RELOADING=1"
    assert int(stamp.removeprefix("MONOTONIC_USEC=")) > 0


@pytest.mark.parametrize("path", ["", "relative", "/nowhere/at/all"])
def test_without_a_manager_nothing_happens(path: str) -> None:
    notify(READY, {"NOTIFY_SOCKET": path})
    notify(READY, {})
