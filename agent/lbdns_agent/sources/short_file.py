"""Reads a short file that another program writes. The reader never waits, not even for a named pipe."""

from __future__ import annotations

import os
import stat
import time
from typing import Final

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.sources.metric_definition import FileSource

LARGEST: Final = 1024 * 1024  # bytes


def read_short_file(source: FileSource) -> bytes:
    """Return the content of the file. Raises MissingValueError if it can't be read, is too large or is out of date."""
    try:
        fd = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise MissingValueError(f"{source.path}: {error.strerror}") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise MissingValueError(f"{source.path}: not a regular file")
        age = time.time() - status.st_mtime
        if source.max_age is not None and age > source.max_age:
            raise MissingValueError(
                f"{source.path}: last modified {age:.0f} s ago, which is more than max-age = {source.max_age:g}"
            )
        return _read(fd, source.path)
    finally:
        os.close(fd)


def _read(fd: int, path: str) -> bytes:
    parts: list[bytes] = []
    length = 0
    try:
        while part := os.read(fd, 65_536):
            parts.append(part)
            length += len(part)
            if length > LARGEST:
                raise MissingValueError(f"{path}: the file is larger than {LARGEST // 1024} KiB")
    except OSError as error:
        raise MissingValueError(f"{path}: {error.strerror}") from None
    return b"".join(parts)
