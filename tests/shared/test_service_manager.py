"""Tests of the messages sent to a service manager."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lbdns_shared.service_manager import READY, STOPPING, UNTOLD_PERIOD, notify, ready, reloading, watchdog_period


@pytest.mark.parametrize("abstract", [False, True])
def test_states_arrive(tmp_path: Path, abstract: bool) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = f"@lbdns-test-{os.getpid()}" if abstract else str(tmp_path / "n")
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(60)
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


@pytest.mark.parametrize(
    ("environment", "took_over", "period"),
    [
        ({}, False, None),
        ({"WATCHDOG_USEC": "30000000"}, False, None),
        ({"NOTIFY_SOCKET": "/n"}, False, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "30000000"}, False, 15.0),
        ({"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, False, 0.25),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, False, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, True, 0.25),
        ({"NOTIFY_SOCKET": "/n"}, True, UNTOLD_PERIOD),
        ({}, True, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"}, False, None),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"}, False, None),
    ],
)
def test_half_of_what_the_manager_waits_for(environment: dict[str, str], took_over: bool, period: float | None) -> None:
    assert watchdog_period(environment, took_over=took_over) == period
