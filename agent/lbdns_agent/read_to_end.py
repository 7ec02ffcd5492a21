"""Reads a pipe or a socket to its end without blocking the agent."""

from __future__ import annotations

import os

from lbdns_agent.non_blocking_sensors import READABLE, DescriptorWait, ReadingSteps


def read_to_end(fd: int, largest: int) -> ReadingSteps[bytes]:
    """Read a non-blocking file descriptor to its end, and return what was read.

    Raises OverflowError if there are more than ``largest`` bytes, and OSError if reading fails.
    """
    parts: list[bytes] = []
    length = 0
    while True:
        try:
            part = os.read(fd, 65_536)
        except BlockingIOError:
            yield DescriptorWait(fd, READABLE)
            continue
        if not part:
            return b"".join(parts)
        parts.append(part)
        length += len(part)
        if length > largest:
            raise OverflowError
