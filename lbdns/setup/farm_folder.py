"""Writes the files of a new farm into a folder. If an error occurs, no new file remains. Existing files are never
overwritten.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644
#: How the configuration of the Debian package begins. It serves an example, which a new farm replaces
EXAMPLE_BEGINS: Final = "# Configuration of lbdns. As installed, it serves an example zone"


@dataclass(frozen=True, slots=True)
class FileToWrite:
    """The text and the mode of a file.

    A file that only its owner can read belongs to the user that runs the server.
    """

    text: str
    mode: int = PUBLIC


def write_files(folder: Path, files: Mapping[str, FileToWrite], uid: int, gid: int) -> Path | None:
    """Write ``files``, keyed by name, into ``folder``. If the folder is missing, create it.

    Private files get the owner ``uid`` and the group ``gid``; -1 keeps those of this process. If the folder contains
    the package's example configuration under one of the names, the example is renamed first. Returns the example's new
    path, or None if no file was renamed. Raises LbdnsError if another file has one of the names, or if a file cannot be
    written.
    """
    example = next((folder / name for name in files if _is_example(folder / name)), None)
    if there := [str(folder / name) for name in files if (folder / name) != example and os.path.lexists(folder / name)]:
        raise LbdnsError(
            f"{', '.join(there)}: already exists; nothing has been written. Choose another folder with --dir"
        )
    moved = _unused(example.with_name(f"{example.name}.example")) if example else None
    written: list[Path] = []
    try:
        folder.mkdir(0o755, parents=True, exist_ok=True)
        if example and moved:
            example.rename(moved)
        for name, file in files.items():
            _write_new(folder / name, file, uid, gid, written)
    except OSError as error:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        if example and moved and moved.exists():
            with contextlib.suppress(OSError):
                moved.rename(example)
        where = error.filename or folder
        raise LbdnsError(f"{where}: cannot write the file: {error.strerror}; nothing has been written") from None
    return moved


def _write_new(path: Path, file: FileToWrite, uid: int, gid: int, written: list[Path]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE)
    written.append(path)
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(file.text)
        if file.mode == PRIVATE:
            os.fchown(descriptor, uid, gid)
        os.fchmod(descriptor, file.mode)


def _is_example(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline().startswith(EXAMPLE_BEGINS)
    except OSError:
        return False


def _unused(path: Path) -> Path:
    number, found = 1, path
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}.{number}")
    return found
