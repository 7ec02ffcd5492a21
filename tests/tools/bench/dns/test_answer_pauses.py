"""Tests of the stalled log, and of the verdict of the benchmark ``dns.pauses``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lbdns_tools.bench.dns.answer_pauses import StalledLog, is_met
from lbdns_tools.bench.measured_processes import BenchmarkError

WRITES = (
    "import sys; print('starting'); print('ready: 1 zone', flush=True); sys.stdin.read(1); print('late', flush=True)"
)


def test_a_program_cannot_write_its_log_once_it_is_ready() -> None:
    log = StalledLog()
    with subprocess.Popen([sys.executable, "-c", WRITES], stdin=subprocess.PIPE, stdout=log.write) as program:
        assert "ready: 1 zone" in log.await_ready()
        assert program.stdin
        program.stdin.write(b".")
        program.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.2)
        log.close()  # the write fails now
        assert program.wait(10) != 0


def test_a_program_that_ends_before_it_is_ready() -> None:
    log = StalledLog()
    program = [sys.executable, "-c", "print('no such file')"]
    expected = pytest.raises(BenchmarkError, match=r"ended before it was ready:\nno such file")
    with subprocess.Popen(program, stdout=log.write), expected:
        log.await_ready()


@pytest.mark.parametrize(
    ("ratio", "worst", "lost", "met"),
    [(1.0, 10.0, 0, True), (1.01, 10.0, 0, False), (1.0, 10.1, 0, False), (1.0, 10.0, 1, False)],
)
def test_the_target(ratio: float, worst: float, lost: int, met: bool) -> None:
    servers = {
        "lbdns": {"kernel_worst_ms": worst, "lost": lost},
        "nsd": {"lbdns_to_it_kernel_p99": ratio, "kernel_worst_ms": 20.0, "lost": 0},
    }
    assert is_met(servers) is met
