"""``[server]``: addresses, processes and user of the DNS server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import section
from lbdns_shared.endpoint import DNS_PORT, Endpoint, parse_listen

PlaneName = Literal["auto", "python", "native"]
PLANES: Final[tuple[PlaneName, ...]] = ("auto", "python", "native")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    listen: tuple[Endpoint, ...] = (Endpoint("0.0.0.0", DNS_PORT), Endpoint("::", DNS_PORT))
    workers: int = 1
    dns_servers: int = 1  # servers that answer for these zones, including this one
    user: str = ""
    state_dir: Path = Path("/var/lib/lbdns")
    control: Path = Path("/run/lbdns/control.sock")
    payload: int = 1232  # bytes: longest UDP message sent and accepted; crosses every path unfragmented
    identity: str = ""  # answer to NSID, id.server and hostname.bind; empty: none
    plane: PlaneName = "auto"  # the fast path: native if installed, or one of the two always
    version: str = ""  # answer to version.bind; empty: none


def read_server(root: TomlTable, base: Path) -> ServerConfig:
    """Return the section; errors go to the table."""
    table = section(root, "server")
    default = ServerConfig()
    server = ServerConfig(
        listen=table.each("listen", default.listen, lambda text: parse_listen(text, DNS_PORT)),
        workers=table.integer("workers", default.workers, 1, 256),
        dns_servers=table.integer("dns_servers", default.dns_servers, 1, 1000),
        user=table.string("user"),
        state_dir=base / table.string("state_dir", str(default.state_dir)),
        control=base / table.string("control", str(default.control)),
        payload=table.integer("payload", default.payload, 512, 1232),
        identity=_short_text(table, "identity"),
        plane=_plane(table),
        version=_short_text(table, "version"),
    )
    if not server.listen:
        table.wrong("listen", "must name at least one address to answer on")
    table.end()
    return server


def _plane(table: TomlTable) -> PlaneName:
    value = table.one_of("plane", "auto", PLANES)
    return next(name for name in PLANES if name == value)


def _short_text(table: TomlTable, key: str) -> str:
    """Return text that fits a character-string (RFC 1035 section 3.3)."""
    text = table.string(key)
    if len(text.encode()) > 255:
        table.wrong(key, "must not be longer than 255 bytes")
        return ""
    return text
