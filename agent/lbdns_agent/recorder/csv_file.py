"""Appends whole rows to a CSV file with a single header, locks the file against other writers, and rotates it."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from lbdns_agent.recorder.rotation import Rotation, rotated_name

CHUNK: Final = 64 * 2**10  # bytes; longer than any header with the row that follows it
MODE: Final = 0o644

log = logging.getLogger("lbdns.recorder")


class FileInUseError(OSError):
    """Raised if another recorder writes to the file."""


class CsvFile:
    """A CSV file to which this process alone appends rows.

    When the first rows arrive, the file is opened, locked and checked. This is repeated after another program, such as
    logrotate, has moved, removed or truncated the file. An incomplete last row, which remains after a power failure, is
    removed. If the file begins with a different header, it is renamed first, because a file can have only one header.
    """

    def __init__(self, path: Path, rotation: Rotation) -> None:
        self.path = path
        self._rotation = rotation
        self._fd = -1
        self._size = 0  # bytes of whole rows
        self._first_time = ""  # the first field of the first row
        self._header = ""

    def append(self, header: str, rows: Sequence[str]) -> None:
        """Append all ``rows``, after the header if the file is new. The first field of a row is its time.

        Raises OSError; the file then contains the same rows as before.
        """
        body = "".join(f"{row}\n" for row in rows).encode()
        now = rows[0].partition(",")[0]
        self.open()
        if self._size and self._header != header:
            target = self._set_aside()
            log.warning("%s: renamed to %s, because its header differs from that of the new rows", self.path, target)
        elif self._first_time and self._rotation.is_due(self._size, len(body), self._first_time, now):
            log.info("%s: rotated to %s", self.path, self._set_aside())
        self._write(body if self._size else f"{header}\n".encode() + body)
        self._header = header
        self._first_time = self._first_time or now

    def open(self) -> None:
        """Open the file and prepare it for the next row. If the file is already open and has not changed, do nothing.

        Raises OSError, and FileInUseError if another recorder has opened the file.
        """
        if self._fd >= 0:
            if self._is_unchanged():
                return
            self.close()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, MODE)
        try:
            self._lock()
            self._examine()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file if it is open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _is_unchanged(self) -> bool:
        ours = os.fstat(self._fd)
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        return os.path.samestat(ours, there) and ours.st_size == self._size

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileInUseError(errno.EBUSY, "another recorder is writing to this file", str(self.path)) from None
        except OSError:  # this file system has no locks
            pass

    def _examine(self) -> None:
        """Read the header and the time of the first row, and remove an incomplete last row."""
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(self.path))
        header, end, rest = os.pread(self._fd, CHUNK, 0).partition(b"\n")
        self._header = header.decode("utf-8", "replace")
        self._first_time = rest.partition(b",")[0].decode("utf-8", "replace") if b"\n" in rest else ""
        self._size = found.st_size
        whole = _end_of_last_row(self._fd, found.st_size)
        if whole == found.st_size:
            return
        if not end and not self._is_start_of_header():
            return  # the file is not a recorded one: it is renamed when its header turns out to differ
        os.ftruncate(self._fd, whole)
        self._size = whole
        log.warning("%s: removed an incomplete last row (%d bytes)", self.path, found.st_size - whole)

    def _is_start_of_header(self) -> bool:
        """Return whether an incomplete first line looks like the start of a header, or contains only NUL bytes."""
        return self._header.startswith(("time,", "datetime,")) or not self._header.strip("\0")

    def _set_aside(self) -> str:
        """Rename the file and begin a new one. Return the new name of the old file."""
        target = self._free_name()
        os.rename(self.path, target)
        self.close()
        self.open()
        return target.name

    def _free_name(self) -> Path:
        first = self._first_time
        number = 1
        while True:
            try:
                name = rotated_name(self.path.name, first, number)
            except ValueError:  # there is no row, or the file is not a recorded one
                first = datetime.fromtimestamp(os.fstat(self._fd).st_mtime).astimezone().isoformat()
                continue
            target = self.path.with_name(name)
            if not os.path.lexists(target):
                return target
            number += 1

    def _write(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            if written:
                # If this fails too, the size differs, and the next call removes the incomplete row
                with suppress(OSError):
                    os.ftruncate(self._fd, self._size)
            raise
        self._size += written


def _end_of_last_row(fd: int, size: int) -> int:
    """Return the offset after the last newline in the file, or 0 if there is none."""
    end = size
    while end > 0:
        begin = max(0, end - CHUNK)
        at = os.pread(fd, end - begin, begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0
