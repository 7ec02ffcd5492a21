"""Makes descriptors scarce, in this process or in another."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def no_descriptors_left() -> Iterator[list[int]]:
    """Leave this process without free descriptors. Closing descriptors in the yielded list makes some free."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest_descriptor(os.getpid()) + 10, before[1]))
    try:
        while True:
            try:
                held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield held
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in held:
            os.close(descriptor)


def allow_descriptors(pid: int, count: int) -> tuple[int, int]:
    """Let a process have no descriptors from ``count`` on, and return its limits until then."""
    _, hard = before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, hard))
    return before


def highest_descriptor(pid: int) -> int:
    return max(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir())
