"""The options for publishing reports to a bus, and the files with the password or the nkey for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns_shared.bus_url import BusServer
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import read_private
from lbdns_shared.nkey import Nkey, read_nkey

_HOW_TO_INSTALL: Final = "run pip install 'lbdns-agent[nkeys]', or install your system's package python3-cryptography"


@dataclass(frozen=True)
class BusOptions:
    """The servers of one bus; a report is published to one of them. Without servers, nothing is published."""

    servers: tuple[BusServer, ...] = ()
    password_file: Path | None = None  # the password of the user in the URL, or a token
    tls_ca: Path | None = None  # certificates of the authorities to trust; None: those of the system
    nkey_file: Path | None = None  # the seed of the nkey that signs, instead of a password


@dataclass(frozen=True)
class BusSecrets:
    """The secrets in files: a password or token, or an nkey, or neither if the URL contains the credentials."""

    password: str = field(default="", repr=False)
    nkey: Nkey | None = None


def read_secrets(options: BusOptions) -> tuple[BusSecrets, list[str]]:
    """Return two values: the secrets in the files, and a list with a warning for each file that other users can read.

    Raises ConfigError.
    """
    password, warnings = read_password(options.password_file)
    if options.nkey_file is None:
        return BusSecrets(password), warnings
    nkey, more = read_nkey(options.nkey_file, "nkey file", _HOW_TO_INSTALL)
    return BusSecrets(password, nkey), warnings + more


def read_password(path: Path | None) -> tuple[str, list[str]]:
    """Return two values: the password in a file, and a list with a warning if other users can read the file.

    Without a file, the password is empty. Raises ConfigError.
    """
    if path is None:
        return "", []
    text, warnings = read_private(path, "password file", "check that this is the right file")
    password = text.strip()
    if not password or len(password.splitlines()) > 1:
        raise ConfigError(f"{path}: the password file must contain one line with a password or a token")
    return password, warnings
