"""Reads a backup archive strictly: any entry that ``lbdns backup`` would not write is an error.

The archive is read as a stream, in one pass, so that it may come from a pipe. Only the headers of regular files are
interpreted, so no entry can refer to a place outside the archive, and memory use does not depend on the archive.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Callable
from typing import BinaryIO, Final, Protocol

from lbdns.backup.archive_writer import MANIFEST_NAME, STATE_PREFIX
from lbdns.backup.manifest import ArchivedFile, ArchiveError, Manifest, parse_manifest

_MAX_MANIFEST: Final = 2**20  # bytes
_MAX_PADDING: Final = 2**16  # bytes after the last entry; tar pads an archive to 10,240 bytes
_PIECE: Final = 2**16  # bytes
_BLOCK: Final = tarfile.BLOCKSIZE
_TYPES: Final = {
    tarfile.LNKTYPE: "a hard link", tarfile.SYMTYPE: "a symbolic link", tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device", tarfile.DIRTYPE: "a directory", tarfile.FIFOTYPE: "a named pipe",
}  # fmt: skip


class Sink(Protocol):
    """Where the content of a file is written. May raise OSError."""

    def write(self, data: bytes, /) -> object: ...


#: Called with each file in the archive, before its content is read; returns where to write the content
OpenSink = Callable[[ArchivedFile], Sink]


def read_archive(
    source: BinaryIO, open_sink: OpenSink, begin: Callable[[Manifest], object] = lambda manifest: None
) -> Manifest:
    """Read and verify an archive, and return its manifest.

    ``begin`` is called with the manifest before the first file. The content that the function writes counts as verified
    only after the function has returned. Raises ArchiveError, whose message continues the archive's name; errors of
    ``begin``, ``open_sink`` and the sinks are passed on.
    """
    stream = _Stream(gzip.GzipFile(fileobj=source, mode="rb"))
    entry = stream.next_entry()
    if entry is None or entry.name != MANIFEST_NAME or entry.size > _MAX_MANIFEST:
        raise ArchiveError(f"not an archive written by 'lbdns backup': the first entry must be {MANIFEST_NAME}")
    manifest = parse_manifest(stream.content(entry.size))
    begin(manifest)
    missing = {STATE_PREFIX + file.name: file for file in manifest.files}
    while entry := stream.next_entry():
        file = missing.pop(entry.name, None)
        if file is None:
            raise ArchiveError(f"entry {_shown(entry.name)} is not in the manifest, or occurs twice")
        if entry.size != file.bytes:
            raise ArchiveError(f"entry {entry.name} has {entry.size} bytes, but {file.bytes} are in the manifest")
        if stream.copy(entry.size, open_sink(file)) != file.sha256:
            raise ArchiveError(f"entry {entry.name} does not match its checksum; the archive is damaged")
    if missing:
        raise ArchiveError(f"entry {next(iter(missing))} is missing; the archive is incomplete")
    stream.end()
    return manifest


class _Stream:
    """The uncompressed bytes of an archive."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed

    def next_entry(self) -> tarfile.TarInfo | None:
        """Return the next entry (always a regular file), or None at the end of the archive. Raises ArchiveError."""
        block = self._exactly(_BLOCK)
        if not any(block):
            return None
        try:
            entry = tarfile.TarInfo.frombuf(block, "utf-8", "backslashreplace")
        except (tarfile.HeaderError, ValueError):
            raise ArchiveError("not a valid tar archive, or damaged") from None
        if entry.type != tarfile.REGTYPE:
            what = _TYPES.get(entry.type, "of an unsupported type")
            raise ArchiveError(f"entry {_shown(entry.name)} is {what}; 'lbdns backup' writes only regular files")
        if entry.size < 0:
            raise ArchiveError(f"entry {_shown(entry.name)} has a negative size")
        return entry

    def content(self, size: int) -> bytes:
        data = self._exactly(size)
        self._skip_padding(size)
        return data

    def copy(self, size: int, sink: Sink) -> str:
        """Write the next ``size`` bytes to ``sink``, and return their SHA-256 checksum in hexadecimal."""
        digest, left = hashlib.sha256(), size
        while left:
            piece = self._exactly(min(left, _PIECE))
            digest.update(piece)
            sink.write(piece)
            left -= len(piece)
        self._skip_padding(size)
        return digest.hexdigest()

    def end(self) -> None:
        """Read to the end, where gzip has its own checksum. Raises ArchiveError if there is anything but padding."""
        total = 0
        while piece := self._read(_PIECE):
            total += len(piece)
            if any(piece) or total > _MAX_PADDING:
                raise ArchiveError("there is data after the last entry")

    def _skip_padding(self, size: int) -> None:
        self._exactly(-size % _BLOCK)

    def _exactly(self, size: int) -> bytes:
        pieces = []
        while size and (piece := self._read(size)):
            pieces.append(piece)
            size -= len(piece)
        if size:
            raise ArchiveError("the archive is incomplete: it ends too early")
        return b"".join(pieces)

    def _read(self, size: int) -> bytes:
        try:
            return self._packed.read(size)
        except gzip.BadGzipFile:
            raise ArchiveError("not an archive written by 'lbdns backup', or damaged: gzip reports an error") from None
        except EOFError:
            raise ArchiveError("the archive is incomplete: it ends too early") from None
        except zlib.error:
            raise ArchiveError("the archive is damaged: gzip reports an error") from None
        except OSError as error:
            raise ArchiveError(f"cannot read the archive: {error.strerror or error}") from None


def _shown(name: str) -> str:
    return f"{name[:100]!r}"
