"""Writes a backup archive of a state directory while the server runs: a gzip-compressed tar file with a manifest first.

Every file in the archive is consistent: the server replaces its files atomically, and SQLite copies the history.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import os
import socket
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from lbdns import __version__
from lbdns.backup.foreign_folder import new_foreign_file
from lbdns.backup.manifest import ArchivedFile, Manifest
from lbdns.backup.state_files import STATE_FILES, StateFile
from lbdns.backup.trusted_folder import UntrustedFolderError, trusted_folder
from lbdns.history.history_copy import copy_history
from lbdns.process.state_lock import not_restored
from lbdns_shared.errors import LbdnsError

MANIFEST_NAME: Final = "manifest.json"
STATE_PREFIX: Final = "state/"
MODE: Final = 0o600  # reasons of overrides, names of hosts and the load of each host are not for everyone
#: Bytes in memory; no file that is not a database becomes nearly as large
MAX_SMALL_FILE: Final = 64 * 2**20
_DATABASE_MODE: Final = 0o640
_INSTEAD: Final = (
    "name a file in a folder that only root can change, such as /var/backups, or write to standard output (-)"
)
_SCRATCH_INSTEAD: Final = "set TMPDIR to a folder that only root can change"


@dataclass(frozen=True, slots=True)
class _CopiedFile:
    about: ArchivedFile
    path: Path


def write_archive(
    state_dir: Path, target: BinaryIO, scratch: Path, zones: tuple[str, ...], now: float, history: bool = True
) -> Manifest:
    """Write the files in ``state_dir`` to ``target``, and return the manifest.

    Consistent copies are first written to the directory ``scratch``. ``now`` is the Unix time. If ``history`` is
    false, the history is left out. Raises LbdnsError if a file cannot be read, if there is none, or if the directory
    is being restored. Raises OSError if a copy or the archive cannot be written.
    """
    left_out = tuple(file.name for file in STATE_FILES.values() if file.is_database and not history)
    with not_restored(state_dir):
        copies = [
            copied
            for file in STATE_FILES.values()
            if file.name not in left_out and (copied := _copy(state_dir, file, scratch))
        ]
    if not copies:
        raise LbdnsError(f"[server] state_dir: {state_dir}: there is nothing to back up; is this the right directory?")
    manifest = Manifest(__version__, socket.gethostname(), now, zones, tuple(each.about for each in copies), left_out)
    with (
        gzip.GzipFile("", "wb", fileobj=target, mtime=now) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        encoded = manifest.encode()
        archive.addfile(_entry(MANIFEST_NAME, len(encoded), MODE, now), io.BytesIO(encoded))
        for each in copies:
            about = each.about
            with each.path.open("rb") as content:
                archive.addfile(_entry(STATE_PREFIX + about.name, about.bytes, about.safe_mode, now), content)
    return manifest


def _entry(name: str, size: int, mode: int, now: float) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, mode, int(now)
    return entry


def _copy(state_dir: Path, file: StateFile, scratch: Path) -> _CopiedFile | None:
    """Copy a state file to ``scratch``. Return None if the server has not written this file yet."""
    path, copy = state_dir / file.name, scratch / file.name
    if file.is_database:
        if not _is_database(state_dir, file) or not copy_history(path, copy):
            return None
        mode = _DATABASE_MODE
    else:
        try:
            content, mode = _read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LbdnsError(f"{path}: cannot read the file: {error.strerror}") from None
        copy.write_bytes(content)
    with copy.open("rb") as copied:
        digest = hashlib.file_digest(copied, "sha256").hexdigest()
    return _CopiedFile(ArchivedFile(file.name, copy.stat().st_size, digest, mode), copy)


def _is_database(state_dir: Path, file: StateFile) -> bool:
    """Return whether a database exists. Raises LbdnsError if SQLite could wait for a named pipe or follow a link.

    The check cannot exclude that the server's user replaces the file before SQLite opens it: SQLite accepts no
    descriptor, and it resolves ``/proc/self/fd/N`` and opens the path that it finds. The user gains nothing by this.
    The command waits for a named pipe, or copies another lbdns history to an archive of root: SQLite is asked only to
    read, ``check_ours`` refuses other databases, and SQLite follows no link from a companion of the database.
    """
    for name in (file.name, *file.companions):
        try:
            mode = (state_dir / name).lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise LbdnsError(
                f"{state_dir / name}: cannot read the history: it is not a regular file; --no-history leaves it out"
            )
    return os.path.lexists(state_dir / file.name)


def _read(path: Path) -> tuple[bytes, int]:
    """Return the content and the permissions of a regular file. Raises OSError."""
    # The server's user must not be able to make root read another file, and a FIFO must not block
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = file.read(MAX_SMALL_FILE + 1)
        if len(content) > MAX_SMALL_FILE:
            raise OSError(errno.EFBIG, f"it has more than {MAX_SMALL_FILE >> 20} MiB, so lbdns has not written it")
        return content, stat.S_IMODE(mode) & 0o777


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Yield a file to write, and a directory for temporary files.

    If the with block succeeds, the complete file is then at ``path``; if the block raises an exception, no file is left
    behind. An existing file is never overwritten. The directory is beside ``path``, unless root runs the process and
    another user can change the directory in ``path``. Raises LbdnsError or OSError.
    """
    if os.path.lexists(path):
        raise _exists(path)
    try:
        folder = trusted_folder(path.parent, _INSTEAD)
    except UntrustedFolderError:
        try:
            with scratch_folder() as scratch, new_foreign_file(path, MODE, _INSTEAD) as file:
                yield file, scratch
        except FileExistsError:
            raise _exists(path) from None
    else:
        with _new_file_beside(folder / path.name) as found:
            yield found


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder that no other user can replace. Raises LbdnsError or OSError."""
    above = trusted_folder(Path(tempfile.gettempdir()), _SCRATCH_INSTEAD)
    with tempfile.TemporaryDirectory(prefix="lbdns-backup-", dir=above) as folder:
        yield Path(folder)


@contextlib.contextmanager
def _new_file_beside(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        fresh = Path(folder) / "archive"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE), "wb") as file:
            yield file, Path(folder)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)
        except FileExistsError:
            raise _exists(path) from None
        except OSError:  # a file system without hard links
            if os.path.lexists(path):
                raise _exists(path) from None
            fresh.rename(path)
    _sync_folder(path.parent)


def _exists(path: Path) -> LbdnsError:
    return LbdnsError(f"{path}: already exists; nothing has been written. Name another file, or remove this one")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
