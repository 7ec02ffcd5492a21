"""The manifest of an archive: who wrote it and when, and each file with its size and checksum. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from lbdns import __version__
from lbdns.backup.state_files import STATE_FILES
from lbdns_shared.errors import LbdnsError

#: Of the archive and of the files in it. Raise it when an older lbdns could no longer read one of them
FORMAT: Final = 1
_MODES: Final = 0o644  # the most that a restored file permits
_OWNER: Final = 0o600  # the least: the server must be able to read and write its files
_LATEST: Final = 2**37  # Unix seconds, in the year 6325
_SHOWN: Final = 60  # characters of an invalid value in an error
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class ArchiveError(LbdnsError):
    """Raised if an archive is damaged, or is not an archive that this version of lbdns can restore."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """The name of a state file, its size in bytes, its SHA-256 checksum in hexadecimal, and its permissions."""

    name: str
    bytes: int
    sha256: str
    mode: int

    @property
    def safe_mode(self) -> int:
        """The permissions for the restored file."""
        return self.mode & _MODES | _OWNER


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive contains. ``left_out`` lists the state files that a restore must not touch."""

    version: str  # of the lbdns that wrote the archive
    host: str
    time: float  # Unix seconds
    zones: tuple[str, ...]
    files: tuple[ArchivedFile, ...]
    left_out: tuple[str, ...] = ()

    def encode(self) -> bytes:
        document = {"format": FORMAT, "program": "lbdns", **asdict(self)}
        return json.dumps(document, indent=1).encode() + b"\n"


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest in ``data``. Raises ArchiveError, whose message continues the archive's name."""
    try:
        document = json.loads(data)
        _check_format(document)
        return _manifest(document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ArchiveError(f"the manifest is not valid: {str(error)[:_SHOWN]!r}") from None


def _check_format(document: Any) -> None:
    if document["program"] != "lbdns" or type(document["format"]) is not int or document["format"] < 1:
        raise ValueError("not written by lbdns")
    if document["format"] > FORMAT:
        raise ArchiveError(
            f"lbdns {str(document.get('version'))[:_SHOWN]!r} wrote it in format {document['format']}, "
            f"but lbdns {__version__} reads formats up to {FORMAT}; install the newer version of lbdns first"
        )


def _manifest(document: Any) -> Manifest:
    zones, files, left_out = (document[key] for key in ("zones", "files", "left_out"))
    if not all(type(items) is list for items in (zones, files, left_out)):
        raise ValueError("zones, files and left_out must be lists")
    if not files:
        raise ValueError("no file is listed")
    time = document["time"]
    if type(time) not in (int, float) or not 0 <= time < _LATEST:
        raise ValueError("time must be a number of seconds")
    found = tuple(_file(item) for item in files)
    names = [file.name for file in found] + [_known(name) for name in left_out]
    if len(set(names)) < len(names):
        raise ValueError("a file is listed twice")
    return Manifest(
        _text(document["version"]), _text(document["host"]), float(time), tuple(map(_text, zones)), found,
        tuple(left_out),
    )  # fmt: skip


def _file(item: Any) -> ArchivedFile:
    size, mode, digest = item["bytes"], item["mode"], _text(item["sha256"])
    if type(size) is not int or size < 0:
        raise ValueError("bytes must be a number of at least 0")
    if type(mode) is not int or not 0 <= mode <= 0o777:
        raise ValueError("mode must be a number from 0 to 511")
    if not _DIGEST.fullmatch(digest):
        raise ValueError("sha256 must be 64 hexadecimal digits")
    return ArchivedFile(_known(item["name"]), size, digest, mode)


def _known(name: Any) -> str:
    if type(name) is not str or name not in STATE_FILES:
        raise ValueError(f"{name!r:.40} is not a state file")
    return name


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r:.40} must be a text")
    return value
