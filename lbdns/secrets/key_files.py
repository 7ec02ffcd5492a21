"""Reads the key files named in the configuration: master keys that verify reports, and secrets for DNS cookies."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final

from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import MasterKey, read_key_file, read_private

SECRET: Final = 16  # bytes in a server secret (RFC 9018, section 4.4)
_WHERE: Final = "[cookies] secret_file"
_LINE: Final = re.compile(rf"[0-9a-fA-F]{{{2 * SECRET}}}")
_INSTEAD: Final = f"run 'openssl rand -hex {SECRET}' to generate a valid line"


def new_cookie_secret() -> bytes:
    """Return a random secret.

    The caller must keep the secret across reloads, because a new secret invalidates all cookies.
    """
    return secrets.token_bytes(SECRET)


def read_cookie_secrets(path: Path) -> tuple[tuple[bytes, ...], list[str]]:
    """Return two values: the secrets in ``path``, and a warning if other users can read the file.

    New cookies are made with the first secret. Cookies that were made with any secret in the file are accepted. Raises
    a ConfigError that lists every invalid line.
    """
    text, warnings = read_private(path, _WHERE, _INSTEAD)
    return parse_cookie_secrets(text, str(path)), warnings


def parse_cookie_secrets(text: str, where: str) -> tuple[bytes, ...]:
    """Return the secrets in ``text``, one secret per line. Error messages refer to the file as ``where``. Raises
    ConfigError.

    Error messages never contain any part of a secret.
    """
    found: list[bytes] = []
    findings: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.split("#", 1)[0].strip()
        if _LINE.fullmatch(word):
            found.append(bytes.fromhex(word))
        elif word:
            findings.append(f"{where}:{number}: {_WHERE}: must be {2 * SECRET} hex digits; {_INSTEAD}")
    if not findings and not found:
        findings.append(f"{where}: {_WHERE}: the file contains no secret; {_INSTEAD}")
    if findings:
        raise ConfigError(*findings)
    return tuple(found)


def read_report_keys(path: Path) -> tuple[tuple[MasterKey, ...], list[str]]:
    """Return two values: the master keys in a key file, and a warning if other users can read the file. Raises
    ConfigError."""
    keys, warnings = read_key_file(path)
    if not keys.masters:
        raise ConfigError(
            f"{path}: the key file contains no master key to verify reports; run 'lbdns keygen' to generate one"
        )
    return keys.masters, warnings
