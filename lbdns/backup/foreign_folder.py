"""Creates a file of root in a folder that another user can change, without following any name that this user controls.

The folder is opened once, without symbolic links. The file has no name while it is written, and linkat() then gives it
a name that does not exist yet. The other user can therefore remove or rename the file, but cannot make root write to
another file or to another folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from lbdns.backup.trusted_folder import UntrustedFolderError, trusted_folder
from lbdns_shared.errors import LbdnsError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED: Final = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
#: What open() returns if the file system or the kernel has no files without a name
_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.EISDIR)


@contextlib.contextmanager
def new_foreign_file(path: Path, mode: int, instead: str) -> Iterator[BinaryIO]:
    """Yield a new file that is at ``path``, complete and on disk, after the with block has succeeded.

    An existing file is never replaced. Raises FileExistsError or another OSError. Raises LbdnsError, whose message ends
    with ``instead``, if the path contains a symbolic link to or in another user's folder, or if the file system cannot
    create a file without a name.
    """
    folder = _open_folder(path.parent, instead)
    try:
        with open(_open_unnamed(folder, path.parent, mode, instead), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.link(f"/proc/self/fd/{file.fileno()}", path.name, dst_dir_fd=folder, follow_symlinks=True)
        os.fsync(folder)
    finally:
        os.close(folder)


def _open_folder(folder: Path, instead: str) -> int:
    """Return a descriptor of a folder. Symbolic links are followed only if no other user can change them."""
    trusted, parts = Path("/"), list(folder.absolute().parts[1:])
    while parts:
        try:
            trusted = trusted_folder(trusted / parts[0], instead)
        except UntrustedFolderError:
            break
        parts.pop(0)
    descriptor = os.open(trusted, _FOLDER)
    for part in parts:
        above = descriptor
        try:
            if part == "..":
                raise LbdnsError(f"{folder}: root does not follow '..' in another user's folder; {instead}")
            descriptor = os.open(part, _FOLDER, dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise LbdnsError(
                f"{folder}: {part} is not a folder; root follows no symbolic links to or in another user's folder; "
                f"{instead}"
            ) from None
        finally:
            os.close(above)
    return descriptor


def _open_unnamed(folder: int, shown: Path, mode: int, instead: str) -> int:
    try:
        return os.open(".", _UNNAMED, mode, dir_fd=folder)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        raise LbdnsError(
            f"{shown}: root cannot write safely to another user's folder on this file system; {instead}"
        ) from None
