"""Read ``[[key]]``, the TSIG keys (RFC 8945) that sign zone transfers and NOTIFY messages."""

from __future__ import annotations

import base64
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns.config.service_credentials import CREDENTIALS
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import domain_name

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
    secret_file: Path | None = field(default=None, compare=False)  # if None, the configuration contains the secret


def read_keys(root: TomlTable) -> tuple[KeyConfig, ...]:
    """Return the keys in the file and any warnings, and add all errors to the findings of ``root``."""
    keys: list[KeyConfig] = []
    for table in root.tables("key"):
        name = domain_name(table, "name", table.required("name"))
        if name in (key.name for key in keys):
            table.wrong("name", f"two keys have the name {name!r}; rename one of them")
        elif not name and table.values.get("name"):
            table.wrong("name", "must not be the root domain; use the same name on both servers, such as 'secondary.'")
        algorithm = table.one_of("algorithm", ALGORITHMS[0], ALGORITHMS)
        file = table.string("secret_file")
        path = CREDENTIALS.copy_or(table.folder / file) if file else None
        secret, warnings = _read_secret(table, path)
        keys.append(KeyConfig(name, algorithm, secret, tuple(warnings), path))
        table.end()
    return tuple(keys)


def _read_secret(table: TomlTable, file: Path | None) -> tuple[bytes, list[str]]:
    """Return two values: one key's secret (from the table or from ``file``), and any warnings. Messages never quote a
    secret."""
    value = table.values.get("secret", "")
    inline = table.get("secret", type(value), value, "")  # of any type: an error must not quote it
    if bool(inline) == bool(file):
        what = (
            "must not be set together with secret_file" if file else 'is missing; set secret = "BASE64" or secret_file'
        )
        table.wrong("secret", what)
        return b"", []
    key, path = ("secret_file", file) if file else ("secret", table.findings.path)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        secret = _decode(_file_text(path) if file else inline)
    except OSError as error:
        table.wrong(key, f"{path}: cannot read the file: {error.strerror}")
        return b"", []
    except ValueError as error:
        table.wrong(key, str(error))
        return b"", []
    warnings = []
    if mode & 0o077:
        what = f"mode {mode:04o} lets other users read the secret; run 'chmod 600 {path}'"
        warnings.append(f"{path}: {table.place} {key}: {what}")
    if len(secret) < WEAK:
        warnings.append(
            f"{table.findings.path}: {table.place} secret: a secret of {len(secret)} bytes can be guessed; use 32 bytes"
        )
    return secret, warnings


def _file_text(path: Path) -> str:
    with path.open("rb") as file:
        try:
            return file.read(4 * MAX_SECRET).decode("ascii")
        except UnicodeDecodeError:
            raise ValueError(f"{path}: must be one line of base64, but contains bytes that are not text") from None


def _decode(text: object) -> bytes:
    try:
        secret = base64.b64decode("".join(text.split()), validate=True) if isinstance(text, str) else b""
    except ValueError:
        secret = b""
    if not 0 < len(secret) <= MAX_SECRET:
        raise ValueError(
            f"must be the base64 form of 1 to {MAX_SECRET} bytes; run 'openssl rand -base64 32' to generate a secret"
        )
    return secret
