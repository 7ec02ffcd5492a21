"""``[[key]]``: the secrets that zone transfers and NOTIFY are signed with (TSIG, RFC 8945)."""

from __future__ import annotations

import base64
import binascii
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.config.reading import domain_name
from lbdns.errors import KeyFileError
from lbdns.toml_table import Table, nearest

#: Those of RFC 8945 section 6 that are not too weak for something new
ALGORITHMS: Final = ("hmac-sha256", "hmac-sha224", "hmac-sha384", "hmac-sha512")
MAX_SECRET: Final = 1024  # bytes: longer than any hash's block, and never the wrong file
WEAK: Final = 16  # bytes: a shorter secret can be found by trying


@dataclass(frozen=True, slots=True)
class KeyConfig:
    name: str  # lower case, without the final dot
    algorithm: str
    secret: bytes = field(repr=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)


def read_keys(root: Table, base: Path) -> tuple[KeyConfig, ...]:
    keys: list[KeyConfig] = []
    for table in root.tables("key"):
        name = domain_name(table, "name", table.required("name"))
        if name in (key.name for key in keys):
            table.wrong("name", f"two keys are called {name!r}; give one another name")
        elif not name and table.values.get("name"):
            table.wrong("name", "the root is no name of a key; both sides call it something like 'secondary.'")
        algorithm = table.one_of("algorithm", ALGORITHMS[0], ALGORITHMS)
        secret, warnings = _read_secret(table, base)
        keys.append(KeyConfig(name, algorithm, secret, tuple(warnings)))
        table.end()
    return tuple(keys)


def _read_secret(table: Table, base: Path) -> tuple[bytes, list[str]]:
    """The secret of one table, from it or from its file, and warnings. No message ever holds any of it."""
    value = table.values.get("secret", "")
    given = table.get("secret", type(value), value, "")  # of any type: a wrong one must not be quoted
    path = table.string("secret_file")
    if bool(given) == bool(path):
        what = "stands beside secret_file; give one of them" if path else 'or secret_file is missing: secret = "BASE64"'
        table.wrong("secret", what)
        return b"", []
    if path:
        where, key = base / path, "secret_file"
    else:
        where, key = table.findings.path, "secret"
    try:
        text = _file_text(where) if path else given
        secret = _decode(text)
        warnings = [*_open_to_others(where, key, table), *_too_short(secret, table)]
    except KeyFileError as error:
        table.wrong(key, str(error))
        return b"", []
    return secret, warnings


def _file_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4 * MAX_SECRET).decode("ascii")
    except OSError as error:
        raise KeyFileError(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KeyFileError(f"{path}: holds bytes that are no text; it should hold one line of base64") from None


def _decode(text: object) -> bytes:
    try:
        secret = base64.b64decode("".join(text.split()), validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        secret = b""
    if not 0 < len(secret) <= MAX_SECRET:
        raise KeyFileError(f"is no base64 of 1 to {MAX_SECRET} bytes; 'openssl rand -base64 32' makes a good one")
    return secret


def _open_to_others(path: Path, key: str, table: Table) -> Iterable[str]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise KeyFileError(f"{path}: can't be read: {error.strerror}") from None
    if mode & 0o077:
        yield f"{path}: {table.place} {key}: mode {mode:04o} lets others read a secret; 'chmod 600 {path}'"


def _too_short(secret: bytes, table: Table) -> Iterable[str]:
    if len(secret) < WEAK:
        yield f"{table.findings.path}: {table.place} secret: {len(secret)} bytes can be guessed; take 32"


def known_key(text: str, keys: Iterable[KeyConfig]) -> str:
    """The name of one of ``keys`` as it is kept. Raises ValueError."""
    name = text.lower().removesuffix(".")
    known = [key.name for key in keys]
    if name not in known:
        near = nearest(name, known) or "; there is no [[key]] at all"
        raise ValueError(f"there is no [[key]] {text!r}{near}")
    return name
