"""The processes of a running lbdns server (main process, fork servers, workers), with their memory and descriptors."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import psutil

FORK_SERVER: Final = "lbdns-forker"
WORKER: Final = "lbdns-worker-"
SAMPLE_S: Final = 0.5  # s between two samples


def children(pid: int) -> list[int]:
    """Return the IDs of a process's children, or an empty list if it has exited."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def open_descriptors(pid: int) -> int:
    """Return the number of a process's open descriptors, or 0 if it has exited."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


def memory(pid: int) -> int:
    """Return the proportional set size (PSS) of a process in bytes, or 0 if it has exited."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds, or 0 if it has exited."""
    try:
        return sum(psutil.Process(pid).cpu_times()[:2])
    except psutil.Error:
        return 0.0


def signal_process(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, unless it has exited."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@contextlib.contextmanager
def no_descriptors(pid: int) -> Iterator[None]:
    """Prevent a process from opening more descriptors."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_descriptors(pid), before[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@dataclass(frozen=True, slots=True)
class ServerProcesses:
    """The IDs of a server's processes. Initially, the first fork server in ``fork_servers`` forks the workers."""

    main: int
    fork_servers: tuple[int, ...]
    workers: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        return (self.main, *self.fork_servers, *self.workers)


def find_processes(main: int) -> ServerProcesses:
    """Return the running processes of the server whose main process is ``main``."""
    fork_servers, workers, left = [], [], children(main)
    while left:
        pid = left.pop()
        left += children(pid)
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            if name == FORK_SERVER and is_alive(pid):
                fork_servers.append(pid)
            elif name.startswith(WORKER) and is_alive(pid):
                workers.append(pid)
    return ServerProcesses(main, tuple(sorted(fork_servers)), tuple(sorted(workers)))


@dataclass(frozen=True, slots=True)
class ResourceSample:
    """The total memory (in bytes) and number of descriptors that a server's processes used at the monotonic time
    ``at``."""

    at: float
    memory: int
    descriptors: int


class ResourceSampler:
    """Samples the server's memory and descriptors in a thread for the duration of a with statement."""

    def __init__(self, processes: Callable[[], ServerProcesses], period: float = SAMPLE_S) -> None:
        self.samples: list[ResourceSample] = []
        self._processes, self._period = processes, period
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resource-sampler", daemon=True)

    def __enter__(self) -> Self:
        self.sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.sample()

    def sample(self) -> ResourceSample:
        """Take a sample now, append it to ``samples``, and return it."""
        pids = self._processes().all
        taken = ResourceSample(time.monotonic(), sum(map(memory, pids)), sum(map(open_descriptors, pids)))
        self.samples.append(taken)
        return taken

    def _run(self) -> None:
        while not self._over.wait(self._period):
            self.sample()
