"""Checks that measured programs are sampled while they run, and are stopped together with their child processes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from lbdns_tools.bench.measured_processes import BenchmarkError, MeasuredProcess, need, pin_to_core, running
from tests.needs import needs

FAMILY = "import subprocess, sys; print('line', flush=True); subprocess.Popen(['sleep', '600']); sys.stdin.read(); "
BUSY = FAMILY + "x = 1\nwhile True: x += 1"


def wait_for_family(server: MeasuredProcess) -> list[psutil.Process]:
    deadline = time.monotonic() + 60
    while len(family := server.tree()) < 2 or not server.log_lines():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return family


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@needs(programs=("taskset",))
def test_a_process_and_its_children_are_read_and_ended(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    with running("busy", [sys.executable, "-c", BUSY], core, tmp_path / "log") as server:
        family = wait_for_family(server)
        assert all(process.cpu_affinity() == [core] for process in family)
        assert server.log_lines() == 1
        assert server.rss() > 1_000_000
        before, deadline = server.cpu_seconds(), time.monotonic() + 60
        while server.cpu_seconds() == before:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    deadline = time.monotonic() + 60  # a killed grandchild is gone a moment later
    while any(map(lives, family)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@needs(programs=("taskset",))
def test_a_process_that_has_ended_is_an_error_with_its_words(tmp_path: Path) -> None:
    with running("short", [sys.executable, "-c", "print('why'); exit(3)"], 0, tmp_path / "log") as server:
        server.process.wait(60)
        with pytest.raises(BenchmarkError, match=r"short exited unexpectedly with exit status 3:\nwhy"):
            server.rss()


def test_a_missing_program_names_its_package() -> None:
    with pytest.raises(BenchmarkError, match=r"no-such-program is not installed; .* install the-package"):
        need("no-such-program", "the-package")


def test_a_missing_core_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="core 1000000 is not available; the available cores are "):
        pin_to_core(1_000_000)
