"""Restores an archive into a state directory that no server uses, and keeps the previous files in a folder there.

All files are first written and verified in a folder in the state directory, and then moved to their places. No file is
moved out of the state directory, because it may be a separate file system, and its parent may belong to another user.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from lbdns import __version__
from lbdns.backup.archive_reader import read_archive
from lbdns.backup.manifest import ArchivedFile, ArchiveError, Manifest
from lbdns.backup.state_files import STATE_FILES
from lbdns.process.state_format import FORMAT, read_state_format
from lbdns.process.state_lock import StateInUseError, exclusive
from lbdns.process.stop_signals import stop_signals
from lbdns_shared.errors import LbdnsError

KEPT_PREFIX: Final = "before-restore-"
_STAGE_PREFIX: Final = ".restore-"
_FOLDER_MODE: Final = 0o750
_SHOWN: Final = 60  # characters of a version in an error
_UNCHANGED: Final = "nothing has been changed"


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and the folder with the previous files (None if there were none)."""

    manifest: Manifest
    kept: Path | None


def check_unused(control: Path) -> None:
    """Raise StateInUseError if a server listens on the control socket at ``control``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(str(control))
        except BlockingIOError:
            pass  # its queue of connections is full
        except OSError:
            return
    raise StateInUseError(f"{control}: a running server listens on this control socket")


def restore_archive(source: BinaryIO, state_dir: Path, now: float) -> Restored:
    """Verify the archive, and replace the files in ``state_dir``; the new files belong to this process's user.

    ``now`` is the Unix time. Raises ArchiveError or LbdnsError. The state files are then unchanged, unless the message
    asks the user to move the previous files back.
    """
    with exclusive(state_dir):
        for leftover in state_dir.glob(f"{_STAGE_PREFIX}*"):  # of a restore that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            stage = Path(tempfile.mkdtemp(prefix=_STAGE_PREFIX, dir=state_dir))
        except OSError as error:
            raise _failed(state_dir, error) from None
        try:
            manifest = _unpack(source, stage)
            _check_state_format(stage)
            with stop_signals():  # none may interrupt the moves
                kept = _replace(state_dir, stage, manifest, now)
        except OSError as error:
            raise _failed(state_dir, error) from None
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    return Restored(manifest, kept)


def _failed(state_dir: Path, error: OSError) -> LbdnsError:
    where = error.filename or state_dir
    return LbdnsError(f"{where}: cannot write the files: {error.strerror or error}; {_UNCHANGED}")


@contextlib.contextmanager
def _new_file(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Yield a new file, which is on disk after the with block."""
    with path.open("xb") as file:
        os.fchmod(file.fileno(), mode)
        yield file
        file.flush()
        os.fsync(file.fileno())


def _unpack(source: BinaryIO, stage: Path) -> Manifest:
    """Write the files of a verified archive to ``stage``. Raises ArchiveError, LbdnsError or OSError."""
    with contextlib.ExitStack() as files:

        def open_sink(file: ArchivedFile) -> BinaryIO:
            return files.enter_context(_new_file(stage / file.name, file.safe_mode))

        def check_space(manifest: Manifest) -> None:
            needed, free = sum(file.bytes for file in manifest.files), shutil.disk_usage(stage).free
            if needed > free:
                raise LbdnsError(
                    f"{stage.parent}: the files need {needed} bytes, but only {free} are free on this disk"
                )

        return read_archive(source, open_sink, check_space)


def _check_state_format(stage: Path) -> None:
    """Raise ArchiveError if a newer lbdns has written the files in ``stage`` in a newer format."""
    found, program = read_state_format(stage)
    if found > FORMAT:
        raise ArchiveError(
            f"lbdns {program[:_SHOWN]!r} wrote its files in format {found}, but lbdns {__version__} reads formats up "
            f"to {FORMAT}; install the newer version of lbdns first"
        )


def _replace(state_dir: Path, stage: Path, manifest: Manifest, now: float) -> Path | None:
    """Move the state files to a new folder, and the files in ``stage`` to their places.

    Raises OSError after moving every file back to its place, or LbdnsError if a file cannot be moved back.
    """
    kept = _new_folder(state_dir, now)
    moved: list[tuple[Path, Path]] = []
    try:
        old = [state_dir / name for name in _replaced_names(manifest) if _is_file(state_dir / name)]
        new = [stage / file.name for file in manifest.files]
        for path, place in (*((path, kept) for path in old), *((path, state_dir) for path in new)):
            path.rename(place / path.name)
            moved.append((place / path.name, path))
        _sync(kept, state_dir)
    except BaseException as error:
        try:
            for path, place in reversed(moved):
                path.rename(place)
            kept.rmdir()
        except OSError:
            raise LbdnsError(f"{state_dir}: {error}; move the previous files back yourself from {kept}") from None
        raise
    if not old:
        kept.rmdir()
        return None
    return kept


def _replaced_names(manifest: Manifest) -> Iterable[str]:
    for file in STATE_FILES.values():
        if file.name not in manifest.left_out:
            yield file.name
            yield from file.companions


def _is_file(path: Path) -> bool:
    """Return whether ``path`` exists and is not a directory. The server writes no directories with these names."""
    try:
        return not stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _new_folder(state_dir: Path, now: float) -> Path:
    """Create a folder for the previous files. Its name contains the time in UTC. Raises OSError."""
    name = KEPT_PREFIX + datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    number, folder = 1, state_dir / name
    while True:
        try:
            folder.mkdir(_FOLDER_MODE)
        except FileExistsError:
            number += 1
            folder = state_dir / f"{name}.{number}"
        else:
            return folder


def _sync(*folders: Path) -> None:
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def describe_failure(name: str, error: ArchiveError) -> ArchiveError:
    """Return an error that names the archive and states that nothing has been changed."""
    return ArchiveError(f"{name}: {error}; {_UNCHANGED}")
