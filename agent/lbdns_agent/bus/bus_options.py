"""The options for publishing reports to a bus, and the file with the password for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lbdns_shared.bus_url import BusServer
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import read_private


@dataclass(frozen=True)
class BusOptions:
    """The servers of one bus; a report is published to one of them. Without servers, nothing is published."""

    servers: tuple[BusServer, ...] = ()
    password_file: Path | None = None  # the password of the user in the URL, or a token
    tls_ca: Path | None = None  # certificates of the authorities to trust; None: those of the system


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
