"""What a collector needs to connect to a bus: the servers, the password or nkey, and the authorities that it trusts."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final

from lbdns.config.bus_section import BusConfig
from lbdns_shared.bus_url import BusServer
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import read_private
from lbdns_shared.nkey import Nkey, read_nkey

HOW_TO_INSTALL_NKEYS: Final = "run pip install 'lbdns[nkeys]'"


@dataclass(frozen=True, slots=True)
class BusAccess:
    """Two objects are equal if a connection made with one need not be made again with the other."""

    servers: tuple[BusServer, ...]
    password: str = field(default="", repr=False)  # of the user in the servers' URLs, or a token; may be empty
    authorities: str = field(default="", repr=False)  # certificates (PEM); empty: those of the system
    nkey: Nkey | None = None  # signs, instead of a password

    def tls_context(self) -> ssl.SSLContext:
        """Return a context that checks the servers' certificates."""
        return ssl.create_default_context(cadata=self.authorities or None)


def read_bus_access(bus: BusConfig) -> tuple[BusAccess, list[str]]:
    """Read the files that ``[bus]`` names. Return two values: the access, and a warning for each file with secrets
    that other users can read. Raises ConfigError."""
    password, authorities, nkey = "", "", None
    warnings: list[str] = []
    if bus.password_file:
        text, warnings = read_private(bus.password_file, "[bus] password_file", "check that this is the right file")
        password = text.strip()
        if not password or len(password.splitlines()) > 1:
            raise ConfigError(f"{bus.password_file}: [bus] password_file: must contain one line with a password")
    if bus.nkey_file:
        nkey, more = read_nkey(bus.nkey_file, "[bus] nkey_file", HOW_TO_INSTALL_NKEYS)
        warnings = warnings + more
    if bus.tls_ca:
        try:
            authorities = bus.tls_ca.read_text("ascii")
            if not authorities.strip():
                raise ValueError("with an empty text, the authorities of the system would be trusted")
            ssl.create_default_context(cadata=authorities)
        except (ValueError, ssl.SSLError):  # also UnicodeDecodeError
            raise ConfigError(f"{bus.tls_ca}: [bus] tls_ca: the file contains no certificate (PEM)") from None
        except OSError as error:
            raise ConfigError(f"{bus.tls_ca}: [bus] tls_ca: cannot read the file: {error.strerror}") from None
    return BusAccess(bus.url, password, authorities, nkey), warnings
