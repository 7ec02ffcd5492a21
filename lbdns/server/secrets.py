"""The secrets of DNS cookies: read from ``secret_file`` of ``[cookies]``, or made up where there is none."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final

from lbdns.answering.cookies import SECRET
from lbdns.errors import ConfigError
from lbdns.keys import read_private

_WHERE: Final = "[cookies] secret_file"
_LINE: Final = re.compile(rf"[0-9a-fA-F]{{{2 * SECRET}}}")
_INSTEAD: Final = f"'openssl rand -hex {SECRET}' prints a good line"


def new_secret() -> bytes:
    """One that nobody knows. Whoever has it keeps it over reloads: another one makes every cookie invalid."""
    return secrets.token_bytes(SECRET)


def read_secrets(path: Path) -> tuple[tuple[bytes, ...], list[str]]:
    """The secrets in ``path`` in its order, the first to make cookies with and all to be accepted, and warnings (a file
    that others can read). Raises ConfigError with every bad line."""
    text, warnings = read_private(path, _WHERE, _INSTEAD)
    return parse_secrets(text, str(path)), warnings


def parse_secrets(text: str, where: str) -> tuple[bytes, ...]:
    """Read the lines of a secret file, one secret a line; ``where`` names it in errors. Raises ConfigError.

    No message holds any part of a secret.
    """
    found: list[bytes] = []
    findings: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.split("#", 1)[0].strip()
        if _LINE.fullmatch(word):
            found.append(bytes.fromhex(word))
        elif word:
            findings.append(f"{where}:{number}: {_WHERE}: is not {2 * SECRET} hex digits; {_INSTEAD}")
    if not findings and not found:
        findings.append(f"{where}: {_WHERE}: the file holds no secret; {_INSTEAD}")
    if findings:
        raise ConfigError(*findings)
    return tuple(found)
