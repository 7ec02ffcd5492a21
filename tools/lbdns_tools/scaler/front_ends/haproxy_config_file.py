"""Keeps the servers in HAProxy's configuration file: a marked block of ``server`` lines in a backend.

HAProxy therefore has the same servers after a restart. The rest of the file is never changed.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.process.atomic_file import replace_file
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.scaler.front_ends.front_end import FrontEndError

BEGIN: Final = "# BEGIN lbdns-scaler"
END: Final = "# END lbdns-scaler"
#: Keywords that begin a section (HAProxy's configuration manual)
_SECTIONS: Final = frozenset(
    {
        "global", "defaults", "frontend", "backend", "listen", "peers", "resolvers", "userlist", "mailers", "cache",
        "program", "http-errors", "ring", "log-forward", "fcgi-app", "crt-store", "traces", "acme",
    }
)  # fmt: skip
_SERVER: Final = re.compile(r"server\s+(?P<name>\S+)\s+(?P<address>\S+)(?P<options>(\s+\S+)*)\s*\Z")
_DISABLED: Final = "disabled"


@dataclass(frozen=True, slots=True)
class ServerLine:
    """A server in the block. ``disabled`` servers are drained; when HAProxy starts, they are in maintenance."""

    address: str  # ADDRESS:PORT
    options: str
    disabled: bool

    def text(self, name: str) -> str:
        """Return the line for the configuration file."""
        words = ["server", name, self.address, *self.options.split(), *([_DISABLED] if self.disabled else [])]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class ConfigBlock:
    """The block in a configuration file: the text before and after its lines, their indentation, and the servers."""

    before: str
    after: str
    indent: str
    servers: dict[str, ServerLine]

    def with_servers(self, servers: Mapping[str, ServerLine]) -> str:
        """Return the file's text with ``servers`` in the block."""
        lines = "".join(f"{self.indent}{line.text(name)}\n" for name, line in servers.items())
        return self.before + lines + self.after


def server_line(address: str, port: int, options: str, disabled: bool) -> ServerLine:
    """Return the line of a server."""
    return ServerLine(str(Endpoint(address, port)), options, disabled)


def find_block(text: str, backend: str) -> ConfigBlock:
    """Return the marked block of ``backend`` in a configuration file.

    Raises ValueError if the block is missing, is in another section, occurs twice or contains other lines.
    """
    lines = text.splitlines(keepends=True)
    begins = [number for number, line in enumerate(lines) if line.strip() == BEGIN]
    ends = [number for number, line in enumerate(lines) if line.strip() == END]
    if not begins and not ends:
        raise ValueError(f"there is no block; add the lines '{BEGIN}' and '{END}' to the section 'backend {backend}'")
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise ValueError(f"there must be exactly one line '{BEGIN}' and, after it, one line '{END}'")
    begin, end = begins[0], ends[0]
    section = _section(lines[:begin])
    if section not in (f"backend {backend}", f"listen {backend}"):
        where = f"in the section '{section}'" if section else "before the first section"
        raise ValueError(f"line {begin + 1}: the block must be in the section 'backend {backend}', but is {where}")
    indent = lines[begin][: len(lines[begin]) - len(lines[begin].lstrip())]
    servers = dict(
        _parse(line, begin + 2 + number) for number, line in enumerate(lines[begin + 1 : end]) if line.strip()
    )
    return ConfigBlock("".join(lines[: begin + 1]), "".join(lines[end:]), indent, servers)


def _section(lines: list[str]) -> str:
    """Return the section that the last of ``lines`` belongs to, such as ``backend web``."""
    for line in reversed(lines):
        words = line.partition("#")[0].split()
        if words and words[0] in _SECTIONS:
            return " ".join(words[:2])
    return ""


def _parse(line: str, number: int) -> tuple[str, ServerLine]:
    match = _SERVER.match(line.strip())
    if not match:
        what = f"only lbdns-scaler may write between '{BEGIN}' and '{END}'; move this line elsewhere"
        raise ValueError(f"line {number}: {line.strip()!r}: {what}")
    options = match["options"].split()
    disabled = options[-1:] == [_DISABLED]
    return match["name"], ServerLine(match["address"], " ".join(options[:-1] if disabled else options), disabled)


class HaproxyConfigFile:
    """HAProxy's configuration file on this host."""

    def __init__(self, path: Path, backend: str) -> None:
        self._path, self._backend = path, backend
        self._changing = threading.Lock()

    def servers(self) -> Mapping[str, ServerLine]:
        """Return the servers in the block. Raises FrontEndError."""
        return self._block().servers

    def change(self, name: str, line: ServerLine | None) -> None:
        """Add or replace a server's line, or remove it if ``line`` is None. Raises FrontEndError.

        The file keeps its mode and its owner. If the path is a symbolic link, its target is replaced.
        """
        with self._changing:
            block = self._block()
            others = {other: found for other, found in block.servers.items() if other != name}
            servers = block.servers | {name: line} if line else others
            if servers != block.servers:
                self._replace(block.with_servers(servers))

    def _replace(self, text: str) -> None:
        path = self._path.resolve()
        try:
            before = path.stat()
            replace_file(path, text, stat.S_IMODE(before.st_mode), sync=True)
            after = path.stat()
            if (before.st_uid, before.st_gid) != (after.st_uid, after.st_gid):
                os.chown(path, before.st_uid, before.st_gid)
        except OSError as error:
            raise FrontEndError(f"{self._path}: cannot write the file: {error.strerror}") from None

    def _block(self) -> ConfigBlock:
        try:
            return find_block(self._path.read_text("utf-8"), self._backend)
        except OSError as error:
            raise FrontEndError(f"{self._path}: cannot read the file: {error.strerror}") from None
        except ValueError as error:
            raise FrontEndError(f"{self._path}: {error}") from None
