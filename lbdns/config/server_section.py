"""Read ``[server]``, which defines the addresses, processes and user of the DNS server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import distinct, each, integer, key, one_of, path, string
from lbdns_shared.endpoint import DNS_PORT, Endpoint, parse_listen

PlaneName = Literal["auto", "python", "native"]
PLANES: Final[tuple[PlaneName, ...]] = ("auto", "python", "native")
_INTERFACE: Final = re.compile(r"[^\s/:]{1,15}")  # IFNAMSIZ


def _short_text(table: TomlTable, name: str, _: str) -> str:
    """Return a string that fits into a DNS character-string (RFC 1035 section 3.3)."""
    text = table.string(name)
    if len(text.encode()) > 255:
        table.wrong(name, "must not be longer than 255 bytes")
    return text


def _interface(text: str) -> str:
    if not _INTERFACE.fullmatch(text):
        raise ValueError(f"{text!r} is not a name of a network interface; 'ip link' lists them")
    return text


@dataclass(frozen=True, slots=True)
class ServerConfig:
    listen: tuple[Endpoint, ...] = each(
        (Endpoint("0.0.0.0", DNS_PORT), Endpoint("::", DNS_PORT)), lambda text: parse_listen(text, DNS_PORT)
    )
    workers: int = integer(1, 1, 256)
    dns_servers: int = integer(1, 1, 1000)  # number of servers that answer for these zones, including this one
    user: str = string()
    state_dir: Path = path("/var/lib/lbdns")
    control: Path = path("/run/lbdns/control.sock")
    payload: int = integer(1232, 512, 1232)  # bytes: longest UDP message; 1232 crosses every path unfragmented
    identity: str = key(_short_text, "")  # answer to NSID, id.server and hostname.bind; empty: none
    plane: PlaneName = one_of("auto", PLANES)  # the fast path; auto: native if installed, else python
    version: str = key(_short_text, "")  # answer to version.bind; empty: none
    xdp: tuple[str, ...] = distinct(_interface)  # the network interfaces on which the kernel answers common queries


def check_server(server: ServerConfig, table: TomlTable) -> None:
    if not server.listen:
        table.wrong("listen", "must contain at least one address at which to answer queries")
