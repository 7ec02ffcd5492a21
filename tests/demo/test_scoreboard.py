"""Tests of the demo's server-status page: Apache's format, and correct counters."""

from __future__ import annotations

import os

import pytest

from lbdns.demo.scoreboard import READING, WAITING, WRITING, Scoreboard

CPU = os.times_result((1.5, 0.25, 0.0, 0.25, 0.0))
LOAD = (0.5, 0.25, 0.125)


def fields(board: Scoreboard, uptime: float = 10.0) -> dict[str, str]:
    lines = board.page(uptime, CPU, LOAD).splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_before_the_first_request() -> None:
    assert fields(Scoreboard(3)) == {
        "ServerVersion": "lbdns-demo",
        "ServerMPM": "threads",
        "ServerUptimeSeconds": "10",
        "Load1": "0.50",
        "Load5": "0.25",
        "Load15": "0.12",
        "Total Accesses": "0",
        "Total kBytes": "0",
        "Total Duration": "0",
        "CPUUser": "1.5",
        "CPUSystem": ".25",
        "CPUChildrenUser": "0",
        "CPUChildrenSystem": ".25",
        "CPULoad": "20",
        "Uptime": "10",
        "ReqPerSec": "0",
        "BytesPerSec": "0",
        "BytesPerReq": "0",
        "DurationPerReq": "0",
        "BusyWorkers": "0",
        "IdleWorkers": "3",
        "Scoreboard": "___",
    }


def test_counters_add_up() -> None:
    board = Scoreboard(4)
    for size, seconds in ((1000, 0.5), (2000, 0.25), (96, 0.25)):
        board.count(size, seconds)
    page = fields(board)
    assert page["Total Accesses"] == "3"
    assert page["Total kBytes"] == "3"
    assert page["Total Duration"] == "1000"
    assert page["ReqPerSec"] == ".3"
    assert page["BytesPerSec"] == "309.6"
    assert page["BytesPerReq"] == "1032"
    assert page["DurationPerReq"] == "333.333"


def test_workers_by_what_they_do() -> None:
    board = Scoreboard(5)
    board.set_state(1, READING)
    board.set_state(3, WRITING)
    page = fields(board)
    assert (page["Scoreboard"], page["BusyWorkers"], page["IdleWorkers"]) == ("_R_W_", "2", "3")
    board.set_state(3, WAITING)
    assert fields(board)["Scoreboard"] == "_R___"


@pytest.mark.parametrize("uptime", [0.0, 1e-9])
def test_a_server_that_has_just_started(uptime: float) -> None:
    board = Scoreboard(1)
    board.count(10, 0.0)
    assert fields(board, uptime)["Uptime"] == "0"
