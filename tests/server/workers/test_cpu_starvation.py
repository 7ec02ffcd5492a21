"""Tests of telling a starved process from one that hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lbdns.server.transport.native_udp import THREAD_NAME
from lbdns.server.workers import cpu_starvation
from lbdns.server.workers.cpu_starvation import CpuStarvation
from tests.end_to_end.process import eventually


@contextmanager
def process(code: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", code]) as found:
        try:
            yield found.pid
        finally:
            found.kill()


BUSY = "while True: pass"


def test_a_process_that_wants_more_than_it_gets_is_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_starvation, "ENOUGH", 1000.0)  # more than any machine gives it
    with process(BUSY) as pid:
        eventually(lambda: CpuStarvation(pid).is_starved(), "it runs")


def test_a_process_that_gets_enough_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_starvation, "ENOUGH", 0.0001)  # less than any machine gives it
    with process(BUSY) as pid:
        starvation = CpuStarvation(pid)
        eventually(lambda: not starvation.is_starved(), "it gets CPU time")


def test_a_process_that_waits_or_is_stopped_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_starvation, "ENOUGH", 1000.0)
    with process("import time; time.sleep(100)") as pid:
        starvation = CpuStarvation(pid)
        eventually(lambda: not starvation.is_starved(), "it has started and waits")
    with process(BUSY) as pid:
        os.kill(pid, signal.SIGSTOP)
        starvation = CpuStarvation(pid)
        eventually(lambda: not starvation.is_starved(), "it is stopped")


def test_a_process_that_has_ended_is_not() -> None:
    with process("") as pid:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert not CpuStarvation(pid).is_starved()


ANSWERS = f"""
import threading, time
def answer():
    open(f"/proc/self/task/{{threading.get_native_id()}}/comm", "w").write("{THREAD_NAME}")
    while True: pass
threading.Thread(target=answer, daemon=True).start()
time.sleep(100)
"""


def test_a_thread_that_answers_while_the_interpreter_hangs_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_starvation, "ENOUGH", 1000.0)
    with process(ANSWERS) as pid:
        tasks = Path(f"/proc/{pid}/task")
        eventually(
            lambda: THREAD_NAME in [(task / "comm").read_text().strip() for task in tasks.iterdir()], "it answers"
        )
        starvation = CpuStarvation(pid)
        eventually(lambda: not any(starvation.is_starved() for _ in range(20)), "its other thread waits")
