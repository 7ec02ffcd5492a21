"""lbdns as the DNS server of a lab: its files, the running server, what it says of itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lbdns.endpoint import DNS_PORT, HTTP_PORT, REPORT_PORT
from lbdns.http_client import STATUS, fetch
from lbdns.http_credentials import NOBODY
from lbdns.keys import agent_line, new_master_key
from lbdns_tools.lab.addresses import NETWORK4, NETWORK6, Machine
from lbdns_tools.lab.asking import answers_dns
from lbdns_tools.lab.farm import NAMES, POOL, ZONE, Farm
from lbdns_tools.lab.network import inside
from lbdns_tools.lab.place import Place
from lbdns_tools.lab.programs import Programs, Running

PROGRAM: Final = "lbdns"  # the name of the running program, and of its log

_ZONE: Final = """\
$TTL 300
@ SOA ns hostmaster 1 3600 900 604800 60
@ NS ns
"""
# All of the lab's networks may ask as often as they like, and read everything; nobody else can reach it
_CONFIG: Final = """\
[server]
listen = [{listen}]
state_dir = "state"
control = "control.sock"

[[zone]]
name = "{zone}"
file = "{zone}.zone"

[[pool]]
name = "{pool}"
zone = "{zone}"
members = [{members}]
names = {{ {names} }}

[collector]
listen = ["{address}:{report_port}"]
key_file = "report.key"

[rate_limit]
exempt = [{networks}]

[explain]
allow = [{networks}]

[web]
listen = "{address}:{http_port}"
allow = [{networks}]

[history]
on = false
"""


def zone_text(machines: Sequence[Machine]) -> str:
    """The zone: the DNS server as ``ns``, and every web host with both addresses. Pure."""
    lines = []
    for machine in machines:
        if machine.kind in ("dns", "web"):
            name = "ns" if machine.kind == "dns" else machine.name
            lines += [f"{name} A {machine.address}", f"{name} AAAA {machine.address6}"]
    return _ZONE + "".join(f"{line}\n" for line in lines)


def config_text(farm: Farm, machines: Sequence[Machine]) -> str:
    """lbdns.toml with all web hosts in one pool, under every name of the lab. Pure."""
    own = _dns_of(machines)
    return _CONFIG.format(
        listen=_strings(f"{own.address}:{DNS_PORT}", f"[{own.address6}]:{DNS_PORT}"),
        zone=ZONE,
        pool=POOL,
        members=_strings(*(host.name for host in farm.hosts)),
        names=", ".join(f'"{owner}" = "{policy}"' for owner, policy in NAMES.items()),
        address=own.address,
        report_port=REPORT_PORT,
        http_port=HTTP_PORT,
        networks=_strings(str(NETWORK4), str(NETWORK6)),
    )


@dataclass(frozen=True, slots=True)
class Site:
    """The files of a lab's DNS server, all below ``folder``. ``address`` is where it takes queries and reports."""

    folder: Path
    address: str

    @property
    def config(self) -> Path:
        return self.folder / "lbdns.toml"

    @property
    def state(self) -> Path:
        """What it remembers from one start to the next."""
        return self.folder / "state"

    def agent_key(self, host: str) -> Path:
        """The key file of a web host's agent."""
        return self.folder / f"{host}.key"


def write_site(farm: Farm, machines: Sequence[Machine], folder: Path) -> Site:
    """Write configuration, zone and fresh keys into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    site = Site(folder, _dns_of(machines).address)
    master = new_master_key()
    _write_private(folder / "report.key", master.line())
    for host in farm.hosts:
        _write_private(site.agent_key(host.name), agent_line(master.agent_key(host.name)))
    (folder / f"{ZONE}.zone").write_text(zone_text(machines))
    site.config.write_text(config_text(farm, machines))
    return site


def serve(programs: Programs, place: Place, site: Site) -> Running:
    """Start ``lbdns serve`` and wait until it answers for the zone. Raises LbdnsError."""
    command = place.command(sys.executable, "-m", "lbdns", "serve", "-c", str(site.config))
    return programs.start(PROGRAM, command, ready=lambda: answers_dns(place, f"ns.{ZONE}"))


def status(place: Place) -> dict[str, Any]:
    """What /api/v1/status says. Raises LbdnsError."""
    base = f"http://{place.machine.address}:{HTTP_PORT}"
    found: dict[str, Any] = json.loads(inside(place.namespace, lambda: fetch(base, STATUS, NOBODY)))
    return found


def _dns_of(machines: Sequence[Machine]) -> Machine:
    return next(machine for machine in machines if machine.kind == "dns")


def _strings(*texts: str) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def _write_private(path: Path, line: str) -> None:
    path.unlink(missing_ok=True)
    with open(path, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(f"{line}\n")
