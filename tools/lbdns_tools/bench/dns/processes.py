"""Programs under measurement: started on a core of their own, their CPU time and memory read, ended by their id."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from lbdns.errors import LbdnsError
from lbdns_tools import installed

PATIENCE: Final = 5.0  # seconds between asking a process to end and ending it
SHOWN: Final = 1500  # characters of a failed program's log that are told
REALTIME: Final = 1  # lowest real-time priority: enough to run before any generator


class BenchError(LbdnsError):
    """A benchmark can't be done: a program is missing, did not start, or ended before its time."""


def need(program: str, package: str) -> str:
    """The path of a program. Raises BenchError that names its Debian package."""
    found = installed.find(program)
    if found is None:
        raise BenchError(f"there is no {program}; on Debian: apt-get install {package}")
    return found


def stay_on(core: int) -> None:
    """Run this process, and what it starts, on one core. Raises BenchError."""
    try:
        os.sched_setaffinity(0, {core})
    except OSError:
        usable = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise BenchError(f"there is no core {core} for us; cores: {usable}") from None


def come_first() -> bool:
    """Let this process run whenever it wants to, so that a busy generator doesn't delay a prober. Needs root."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(REALTIME))
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Running:
    """A process with its children, and the file that takes what it says."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def tree(self) -> list[psutil.Process]:
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """User and system time so far, of all threads of all its processes."""
        self.demand_alive()
        return sum(sum(process.cpu_times()[:2]) for process in self.tree())

    def rss(self) -> int:
        """Resident bytes of all its processes."""
        self.demand_alive()
        return sum(int(process.memory_info().rss) for process in self.tree())

    def log_lines(self) -> int:
        return self.log.read_bytes().count(b"\n")

    def demand_alive(self) -> None:
        """Raises BenchError, with the end of its log, if it has ended."""
        if self.process.poll() is not None:
            said = self.log.read_text(errors="replace")[-SHOWN:]
            raise BenchError(f"{self.name} ended with exit status {self.process.returncode}:\n{said}")


@contextlib.contextmanager
def running(
    name: str, command: Sequence[str], core: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a program on ``core`` for the length of a with statement; its output goes to the file ``log``."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [need("taskset", "util-linux"), "-c", str(core), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # so that its children can be ended with it, and Ctrl-C comes only through us
        )
    try:
        yield Running(name, process, log)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process in a session of its own to end, then kill what is left of the session."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)
