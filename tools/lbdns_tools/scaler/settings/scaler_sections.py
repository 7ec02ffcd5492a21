"""The sections of scaler.toml except providers, front ends, demand and policies: their keys, defaults and ranges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns.config.value_readers import HOST_NAME
from lbdns_shared.endpoint import Endpoint, parse_listen

MAX_SERVERS: Final = 1000
MAX_FARM: Final = 50  # characters
HTTP_PORT: Final = 80
STATUS_PORT: Final = 8054


def _farm(table: TomlTable, key: str, default: str) -> str:
    name = table.string(key, default).lower()
    if not HOST_NAME.match(f"{name}-1") or len(name) > MAX_FARM:
        what = f"must be the start of a host name, at most {MAX_FARM} characters long, such as 'web', not {name!r}"
        table.wrong(key, what)
        return default
    return name


def _listen(table: TomlTable, key: str, default: Endpoint | None) -> Endpoint | None:
    return table.parsed(
        key, str(default), lambda text: None if text == "off" else parse_listen(text, STATUS_PORT), default
    )


@dataclass(frozen=True, slots=True)
class ScalerSection:
    """The section ``[scaler]``. Times are in seconds."""

    farm: str = read.key(_farm, "web")  # servers are called web-1, web-2 and so on
    policy: str = read.string("queue")
    minimum: int = read.integer(1, 1, MAX_SERVERS)  # servers in service
    maximum: int = read.integer(10, 1, MAX_SERVERS)
    spares: int = read.integer(0, 0, MAX_SERVERS)  # stopped servers that are kept
    period: float = read.duration(15.0, 1.0)  # between two decisions
    look: float = read.duration(1.0, 0.2)  # between two observations of the servers
    cool_down: float = read.duration(0.0)  # after a change of the number, before the next one
    delay_in: float = read.duration(0.0)  # for which the policy must recommend fewer servers before some go
    warm_up: float = read.duration(30.0)  # in service before a server's CPU utilization counts
    capacity: float = read.number(0.0, 0.0, 1e9)  # requests/s of one server; 0: as measured
    state_dir: Path = read.path("/var/lib/lbdns-scaler")
    csv: str = read.string("scaler.csv")  # in state_dir, unless it is an absolute path; "" for none
    listen: Endpoint | None = read.key(_listen, Endpoint("127.0.0.1", STATUS_PORT))  # status and metrics


@dataclass(frozen=True, slots=True)
class ProbeSection:
    """The section ``[probe]``: the page that is requested to check whether a new server works."""

    port: int = read.integer(HTTP_PORT, 1, 65535)
    path: str = read.string("/")
    host: str = read.string()  # Host header; empty: the server's address
