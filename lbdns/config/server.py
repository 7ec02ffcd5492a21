"""``[server]``: where and as whom DNS is answered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lbdns.config.reading import section
from lbdns.endpoint import DNS_PORT, Endpoint, parse_listen
from lbdns.toml_table import Table

PlaneName = Literal["auto", "python", "native"]
PLANES: Final[tuple[PlaneName, ...]] = ("auto", "python", "native")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    listen: tuple[Endpoint, ...] = (Endpoint("0.0.0.0", DNS_PORT), Endpoint("::", DNS_PORT))
    workers: int = 1
    dns_servers: int = 1  # that answer for these zones, this one included
    user: str = ""
    state_dir: Path = Path("/var/lib/lbdns")
    control: Path = Path("/run/lbdns/control.sock")
    payload: int = 1232  # bytes we send over UDP at most, and say we receive: passes every path unfragmented
    identity: str = ""  # which server this is, for NSID, id.server and hostname.bind; empty: not told
    plane: PlaneName = "auto"  # who answers usual queries: "native" if it must be, "python" if Python alone
    version: str = ""  # what version.bind is answered with; empty: not told


def read_server(root: Table, base: Path) -> ServerConfig:
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
        table.wrong("listen", "names no address to answer on")
    table.end()
    return server


def _plane(table: Table) -> PlaneName:
    value = table.one_of("plane", "auto", PLANES)
    return next(name for name in PLANES if name == value)


def _short_text(table: Table, key: str) -> str:
    """Text that fits a character-string (RFC 1035 section 3.3)."""
    text = table.string(key)
    if len(text.encode()) > 255:
        table.wrong(key, "is longer than 255 bytes")
        return ""
    return text
