"""Writes zip and tar.gz archives whose bytes depend only on the names, modes and contents of their files."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_FIRST_ZIP_TIME: Final = 315532800  # 1980-01-01: zip knows no earlier time


def zip_bytes(files: Mapping[str, bytes], epoch: int) -> bytes:
    """Return a zip archive of ``files`` (name -> content), in the order of the mapping, each with mode 644."""
    buffer = io.BytesIO()
    moment = time.gmtime(max(epoch, _FIRST_ZIP_TIME))[:6]
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, so that the mode counts
            entry.external_attr = (0o100644) << 16
            archive.writestr(entry, content, compresslevel=9)
    return buffer.getvalue()


def repack_tar_gz(path: Path, epoch: int) -> None:
    """Rewrite the archive ``path``: entries in the order of their names, owned by root, last modified at ``epoch``."""
    with tarfile.open(path) as old:
        members = sorted(old.getmembers(), key=lambda member: member.name)
        contents = [file.read() if member.isfile() and (file := old.extractfile(member)) else b"" for member in members]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member, content in zip(members, contents, strict=True):
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.linkname, plain.size, plain.mtime = member.type, member.linkname, len(content), epoch
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(plain, io.BytesIO(content))
    path.write_bytes(gzip.compress(buffer.getvalue(), compresslevel=9, mtime=epoch))
