"""Starts programs on separate cores, measures their CPU time and memory use, and stops them by process ID."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from lbdns_shared.errors import LbdnsError
from lbdns_tools import installed_programs

STEP: Final = 0.05  # seconds before a log is read again
PATIENCE: Final = 5.0  # seconds between SIGTERM and SIGKILL
SHOWN: Final = 1500  # characters of a failed program's log that an error shows
REALTIME: Final = 1  # lowest real-time priority: enough to run before any generator


class BenchmarkError(LbdnsError):
    """The error raised if a benchmark cannot run because a program is missing, does not start or exits too early."""


def need(program: str, package: str) -> str:
    """Return the path of ``program``. If the program is missing, raises BenchmarkError with the name of the Debian
    package."""
    found = installed_programs.find(program)
    if found is None:
        raise BenchmarkError(f"{program} is not installed; on Debian: apt-get install {package}")
    return found


def pin_to_core(core: int) -> None:
    """Restrict this process, and the processes that it starts, to one core. Raises BenchmarkError."""
    try:
        os.sched_setaffinity(0, {core})
    except OSError:
        usable = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise BenchmarkError(f"core {core} is not available; the available cores are {usable}") from None


def take_priority() -> bool:
    """Give this process real-time priority over load generators (requires root), and return whether that succeeded."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(REALTIME))
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class MeasuredProcess:
    """A process, its child processes, and the file that receives their output."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def tree(self) -> list[psutil.Process]:
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """Return the user and system CPU time of the process and its children so far, in seconds."""
        self.require_alive()
        return sum(sum(process.cpu_times()[:2]) for process in self.tree())

    def rss(self) -> int:
        """Return the resident memory of the process and its children, in bytes."""
        self.require_alive()
        return sum(int(process.memory_info().rss) for process in self.tree())

    def log_lines(self) -> int:
        return self.log.read_bytes().count(b"\n")

    def await_log(self, pattern: str, limit: float, what: str) -> re.Match[str]:
        """Wait for ``pattern`` in the log and return the first match. Raises BenchmarkError after ``limit`` seconds."""
        deadline = time.monotonic() + limit
        while not (found := re.search(pattern, self.log.read_text(errors="replace"))):
            self.require_alive()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.name} did not log {what} within {limit:g} s")
            time.sleep(STEP)
        return found

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def output(self, limit: float) -> str:
        """Wait until the process exits, and return its log. Raises BenchmarkError if the process fails or does not exit
        within ``limit`` seconds."""
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"{self.name} did not finish within {limit:g} s") from None
        if status:
            self.require_alive()
        return self.log.read_text(errors="replace")

    def require_alive(self) -> None:
        """Raise BenchmarkError with the end of the log if the process has exited."""
        if self.ended:
            log = self.log.read_text(errors="replace")[-SHOWN:]
            raise BenchmarkError(f"{self.name} exited unexpectedly with exit status {self.process.returncode}:\n{log}")


@contextlib.contextmanager
def running(
    name: str, command: Sequence[str], core: int | None, log: Path, patience: float = PATIENCE
) -> Iterator[MeasuredProcess]:
    """Run a program for the duration of a with statement. If ``core`` is None, the program may run on any core.

    The program's output is written to ``log``.
    """
    pinned = [] if core is None else [need("taskset", "util-linux"), "-c", str(core)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*pinned, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # stop() can kill its children too, and Ctrl-C reaches only this process
        )
    try:
        yield MeasuredProcess(name, process, log)
    finally:
        stop(process, patience)


def stop(process: subprocess.Popen[bytes], patience: float = PATIENCE) -> None:
    """Send SIGTERM to a session leader, wait up to ``patience`` seconds, and kill any remaining processes in its
    session."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)
