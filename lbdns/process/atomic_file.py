"""Replaces a file atomically: readers see either the complete old file or the complete new one."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import Final

LEFTOVER: Final = 60.0  # seconds after which a temporary file is no longer being written


def replace_file(path: Path, content: str | bytes, mode: int = 0o644, sync: bool = False) -> None:
    """Write ``content`` to a temporary file, then rename it to ``path``.

    If ``sync`` is true, ``path`` contains either the complete old file or the complete new one even after a power
    failure. Raises OSError.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    if sync:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of processes that were killed while replacing ``path``.

    This function blocks on disk I/O.
    """
    with contextlib.suppress(OSError):
        for leftover in path.parent.glob(f".{path.name}.*"):
            if time.time() - leftover.stat().st_mtime > LEFTOVER:
                leftover.unlink()
