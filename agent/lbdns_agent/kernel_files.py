"""Reads files in /proc and in cgroups repeatedly.

The files stay open, because opening a file takes as long as reading it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

CHUNK: Final = 65_536  # bytes; holds /proc/stat of a large machine in one piece
LONGEST: Final = 16 * 1024 * 1024  # bytes; all kernel files are shorter

# One buffer for all reads: a new one would not be in the processor's caches.
# Only one thread reads kernel files.
_BUFFER = memoryview(bytearray(CHUNK))
_BUFFERS = (_BUFFER,)


def read_open(fd: int) -> bytes:
    """Return the whole content of an open file. Raises OSError."""
    length = os.preadv(fd, _BUFFERS, 0)
    first = bytes(_BUFFER[:length])
    if length == 0:
        return first
    # The kernel returns such a file in pages of whole rows; only an empty read marks the end
    parts, total = [first], length
    while total < LONGEST and (length := os.preadv(fd, _BUFFERS, total)):
        parts.append(bytes(_BUFFER[:length]))
        total += length
    return b"".join(parts) if len(parts) > 1 else first


def read_short(fd: int) -> bytes:
    """Return the content of an open file that can be read with one system call, such as a stat file. Raises OSError."""
    return bytes(_BUFFER[: os.preadv(fd, _BUFFERS, 0)])


def read_once(path: str) -> bytes:
    """Open a file, return its whole content and close it. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_open(fd)
    finally:
        os.close(fd)


class KernelFile:
    """A file in /proc or in a cgroup, opened on the first read."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._fd = -1

    def __del__(self) -> None:
        self.close()

    def read(self) -> bytes:
        """Return the current content of the file. Raises OSError."""
        if self._fd >= 0:
            try:
                return read_open(self._fd)
            except OSError:
                # For example, the file's cgroup was removed; a new cgroup of the same name may exist
                self.close()
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return read_open(self._fd)

    def close(self) -> None:
        """Close the file if it is open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class ProcFiles:
    """A reader for files in /proc or in a copy of it. Each file is read only once per round, even if several sensors
    use it.
    """

    def __init__(self, root: str | Path = "/proc") -> None:
        self.root = str(root)
        self._files: dict[str, KernelFile] = {}
        self._round: dict[str, bytes] = {}

    def start_round(self) -> None:
        """Start a new round: discard the cached contents."""
        self._round.clear()

    def read(self, name: str) -> bytes:
        """Return the content of file ``name``, which is read only once per round. Raises OSError."""
        text = self._round.get(name)
        if text is None:
            file = self._files.get(name)
            if file is None:
                file = self._files[name] = KernelFile(f"{self.root}/{name}")
            text = self._round[name] = file.read()
        return text
