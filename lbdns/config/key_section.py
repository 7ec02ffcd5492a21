"""``[[key]]``: the TSIG keys (RFC 8945) that sign zone transfers and NOTIFY messages."""

from __future__ import annotations

import base64
import binascii
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import domain_name
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import KeyFileError

#: The algorithms of RFC 8945 section 6 that are strong enough for new keys
ALGORITHMS: Final = ("hmac-sha256", "hmac-sha224", "hmac-sha384", "hmac-sha512")
MAX_SECRET: Final = 1024  # bytes: longer than any hash block; a larger file is not a key
WEAK: Final = 16  # bytes; a shorter secret can be found by brute force


@dataclass(frozen=True, slots=True)
class KeyConfig:
    name: str  # lower case, without the final dot
    algorithm: str
    secret: bytes = field(repr=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)


def read_keys(root: TomlTable, base: Path) -> tuple[KeyConfig, ...]:
    """Return the keys of the file, with their warnings; errors go to the table."""
    keys: list[KeyConfig] = []
    for table in root.tables("key"):
        name = domain_name(table, "name", table.required("name"))
        if name in (key.name for key in keys):
            table.wrong("name", f"two keys have the name {name!r}; rename one of them")
        elif not name and table.values.get("name"):
            table.wrong("name", "must not be the root; use a name that both servers know, such as 'secondary.'")
        algorithm = table.one_of("algorithm", ALGORITHMS[0], ALGORITHMS)
        secret, warnings = _read_secret(table, base)
        keys.append(KeyConfig(name, algorithm, secret, tuple(warnings)))
        table.end()
    return tuple(keys)


def _read_secret(table: TomlTable, base: Path) -> tuple[bytes, list[str]]:
    """Return the secret of one key, from the table or its file, and warnings. No message quotes a secret."""
    value = table.values.get("secret", "")
    given = table.get("secret", type(value), value, "")  # of any type: an error must not quote it
    path = table.string("secret_file")
    if bool(given) == bool(path):
        what = (
            "must not be set together with secret_file" if path else 'is missing; set secret = "BASE64" or secret_file'
        )
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
        raise KeyFileError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KeyFileError(f"{path}: must be one line of base64, and contains bytes that are not text") from None


def _decode(text: object) -> bytes:
    try:
        secret = base64.b64decode("".join(text.split()), validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        secret = b""
    if not 0 < len(secret) <= MAX_SECRET:
        raise KeyFileError(f"must be base64 of 1 to {MAX_SECRET} bytes; 'openssl rand -base64 32' prints a good secret")
    return secret


def _open_to_others(path: Path, key: str, table: TomlTable) -> Iterable[str]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read: {error.strerror}") from None
    if mode & 0o077:
        yield f"{path}: {table.place} {key}: mode {mode:04o} lets other users read the secret; run 'chmod 600 {path}'"


def _too_short(secret: bytes, table: TomlTable) -> Iterable[str]:
    if len(secret) < WEAK:
        yield f"{table.findings.path}: {table.place} secret: {len(secret)} bytes can be guessed; use 32"


def known_key(text: str, keys: Iterable[KeyConfig]) -> str:
    """Return the name of the key that ``text`` names, in lower case without its final dot. Raises ValueError."""
    name = text.lower().removesuffix(".")
    known = [key.name for key in keys]
    if name not in known:
        near = nearest(name, known) or "; the configuration has no [[key]]"
        raise ValueError(f"unknown [[key]] {text!r}{near}")
    return name
