"""Locks the state directory: several servers may use it at the same time, but none while it is being restored."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lbdns.process import privileges
from lbdns_shared.errors import LbdnsError

FILE_NAME: Final = "lock"  # in [server] state_dir
MODE: Final = 0o600  # a lock needs an open file, so no other user can keep the server from starting
# Without O_NONBLOCK, a named pipe in the place of the file would block the program
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_OPEN: Final = os.O_RDONLY | _FLAGS
_START: Final = "start the server"


class StateInUseError(LbdnsError):
    """Raised if a server uses the state directory that is to be restored."""


class StateLock:
    """A running server's lock on its state directory.

    The lock is shared, because during a take-over two servers use the directory. If the lock file cannot be opened,
    the server runs without a lock, because it must answer queries even if its disk is full or read-only.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def take(self, folder: Path, user: str) -> None:
        """Lock the directory, which is created if necessary. Its new files belong to ``user``.

        Raises LbdnsError if the directory is being restored.
        """
        self._replace(_shared(folder, user))

    @contextlib.contextmanager
    def changing_to(self, folder: Path, user: str) -> Iterator[None]:
        """Replace the lock on the old directory with a lock on ``folder`` when a with block ends.

        The method creates no file before the block ends. If the block raises an exception, the old directory stays
        locked. If both are the same directory, its lock is kept, because the process may no longer be permitted to
        open the lock file. Raises LbdnsError if the directory is being restored.
        """
        if self._holds(folder):
            yield
            return
        descriptor = _shared_existing(folder)
        try:
            yield
        except BaseException:
            _close(descriptor)
            raise
        if descriptor is None:
            with contextlib.suppress(LbdnsError):  # the change is already in force
                descriptor = _shared(folder, user)
        self._replace(descriptor)

    def _holds(self, folder: Path) -> bool:
        try:
            return self._descriptor is not None and os.path.samestat(
                os.fstat(self._descriptor), (folder / FILE_NAME).lstat()
            )
        except OSError:
            return False

    def release(self) -> None:
        self._replace(None)

    def _replace(self, descriptor: int | None) -> None:
        _close(self._descriptor)
        self._descriptor = descriptor


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep servers from using the directory while a with block runs.

    Raises StateInUseError if a server uses it, or LbdnsError if the lock file cannot be opened or locked.
    """
    path = folder / FILE_NAME
    try:
        # NFS grants an exclusive lock only on a file that is open for writing
        descriptor = os.open(path, os.O_RDWR | _FLAGS | os.O_CREAT, MODE)
    except OSError as error:
        raise LbdnsError(f"{path}: cannot open the file: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise LbdnsError(f"{path}: cannot lock the file: it is not a regular file; remove it")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateInUseError(
                f"{folder}: a running server, a backup or another restore uses this directory"
            ) from None
        except OSError as error:
            raise LbdnsError(f"{path}: cannot lock the file: {error.strerror}") from None
        yield
    finally:
        _close(descriptor)


@contextlib.contextmanager
def not_restored(folder: Path) -> Iterator[None]:
    """Keep a restore from replacing the files in the directory while a with block reads them.

    The function creates no file, because the file would belong to the wrong user. If there is no lock file, or if it
    cannot be opened, the block runs without a lock. Raises LbdnsError if the directory is being restored.
    """
    descriptor = _shared_existing(folder, "run this command")
    try:
        yield
    finally:
        _close(descriptor)


def _shared(folder: Path, user: str) -> int | None:
    """Lock the directory, which is created if necessary. Return None if that is impossible. Raises LbdnsError."""
    privileges.own_folder(folder, user)
    try:
        opened = os.open(folder / FILE_NAME, _OPEN | os.O_CREAT | os.O_EXCL, MODE)
    except FileExistsError:
        descriptor = _shared_existing(folder)
    except OSError:
        return None
    else:
        descriptor = _locked(folder, opened)
    if descriptor is not None and privileges.will_become(user):
        with contextlib.suppress(OSError):
            _own(descriptor, user)
    return descriptor


def _own(descriptor: int, user: str) -> None:
    """Give the lock file to ``user``, who must be able to open it at a reload. Raises OSError."""
    found, ids = os.fstat(descriptor), privileges.ids(user)
    # The owner of the directory could have linked another file here; a lock file is empty and has one name
    is_ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size == 0
    if is_ours and found.st_uid != ids[0]:
        os.fchown(descriptor, *ids)


def _shared_existing(folder: Path, later: str = _START) -> int | None:
    """Lock the directory if it has a lock file. Return None otherwise.

    Raises LbdnsError, whose message says what to do ``later``, if the directory is being restored.
    """
    try:
        return _locked(folder, os.open(folder / FILE_NAME, _OPEN), later)
    except OSError:
        return None


def _locked(folder: Path, descriptor: int, later: str = _START) -> int | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        _close(descriptor)
        raise LbdnsError(
            f"[server] state_dir: {folder}: 'lbdns restore' is replacing its files; {later} afterwards"
        ) from None
    except OSError:  # the file system has no locks
        _close(descriptor)
        return None
    return descriptor


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
