"""Files of the kernel that are read over and over: kept open, because opening costs as much as reading."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

CHUNK: Final = 65_536  # bytes: /proc/stat of a large machine in one piece
LONGEST: Final = 16 * 1024 * 1024  # bytes: a file that doesn't end is no file of the kernel

# One buffer for all readings: a new one each time is memory that the processor has not in its caches.
# Only one thread reads the kernel's files.
_BUFFER = memoryview(bytearray(CHUNK))
_BUFFERS = (_BUFFER,)


def read_open(fd: int) -> bytes:
    """The whole of an open file, from its beginning. Raises OSError."""
    length = os.preadv(fd, _BUFFERS, 0)
    first = bytes(_BUFFER[:length])
    if length == 0:
        return first
    # A sequence file gives one page of its rows at a time: only an empty answer is its end
    parts, total = [first], length
    while total < LONGEST and (length := os.preadv(fd, _BUFFERS, total)):
        parts.append(bytes(_BUFFER[:length]))
        total += length
    return b"".join(parts) if len(parts) > 1 else first


def read_short(fd: int) -> bytes:
    """An open file that the kernel gives whole in one reading, such as a process's stat. Raises OSError."""
    return bytes(_BUFFER[: os.preadv(fd, _BUFFERS, 0)])


def read_once(path: str) -> bytes:
    """The whole of a file that is not kept open. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_open(fd)
    finally:
        os.close(fd)


class KernelFile:
    """One file of /proc or of a cgroup, opened at the first reading."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._fd = -1

    def read(self) -> bytes:
        """The file as it is now. Raises OSError."""
        if self._fd >= 0:
            try:
                return read_open(self._fd)
            except OSError:
                # What it stood for is gone (a cgroup that was removed); there may be a new one of that name
                self.close()
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return read_open(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Proc:
    """/proc, or a copy of it: each file is read once a round, whoever asks for it."""

    def __init__(self, root: str | Path = "/proc") -> None:
        self.root = str(root)
        self._files: dict[str, KernelFile] = {}
        self._round: dict[str, bytes] = {}

    def new_round(self) -> None:
        """What is asked for from now on is read anew."""
        self._round.clear()

    def read(self, name: str) -> bytes:
        """The file ``name`` below the root, as it was when first asked for in this round. Raises OSError."""
        text = self._round.get(name)
        if text is None:
            file = self._files.get(name)
            if file is None:
                file = self._files[name] = KernelFile(f"{self.root}/{name}")
            text = self._round[name] = file.read()
        return text
