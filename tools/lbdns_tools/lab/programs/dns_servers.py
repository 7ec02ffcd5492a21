"""Configures and starts a lab's DNS servers: lbdns as the authoritative server, and unbound as a caching resolver."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lbdns.client.http_client import STATUS_PATH, HttpLocation, fetch
from lbdns_shared.endpoint import DNS_PORT, HTTP_PORT, REPORT_PORT
from lbdns_shared.errors import LbdnsError
from lbdns_shared.keys import agent_line, new_master_key
from lbdns_tools.installed_programs import path_of
from lbdns_tools.lab.farm.lab_farm import (
    BEST_SITES,
    NAMES,
    NETWORK4,
    NETWORK6,
    POOL,
    ZONE,
    LabFarm,
    LabMachine,
    site_owner,
)  # fmt: skip
from lbdns_tools.lab.machines.network_namespaces import inside
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.machines.server_probes import answers_dns
from lbdns_tools.lab.programs.lab_programs import LabProgram, LabPrograms

_ZONE: Final = """\
$TTL 300
@ SOA ns hostmaster 1 3600 900 604800 60
@ NS ns
"""
# The lab's networks are exempt from the rate limit and may read everything; no other network can reach the server
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
check = "{check}"
{join}
{sites}[collector]
score = "{score}"
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
# Hosts that have left are forgotten soon, since hosts come and go within minutes in a study
_JOIN: Final = 'join = {{ names = [{names}], networks = [{networks}], max = {most}, leave_after = "30s" }}\n'
MAX_JOINED: Final = 1000
NETWORKS: Final = "networks.txt"  # the sites of the clients' networks

# Queries for other names are refused at once, because the lab is isolated and queries to the root servers would time
# out. unbound runs only the iterator module, without validation, because the zone is not signed.
_UNBOUND_CONF: Final = """\
server:
    interface: {address}@{port}
    interface: {address6}@{port}
    access-control: {network4} allow
    access-control: {network6} allow
    do-daemonize: no
    use-syslog: no
    username: ""
    chroot: ""
    directory: "{folder}"
    pidfile: ""
    num-threads: 1
    module-config: "iterator"
    local-zone: "." refuse
    local-zone: "{zone}." transparent
    cache-min-ttl: {min_ttl}

remote-control:
    control-enable: no

stub-zone:
    name: "{zone}."
    stub-addr: {dns}
"""


def zone_text(machines: Sequence[LabMachine]) -> str:
    """Return the text of a zone file with the IPv4 and IPv6 addresses of the DNS server (``ns``) and all web hosts."""
    lines = []
    for machine in machines:
        if machine.kind in ("dns", "web"):
            name = "ns" if machine.kind == "dns" else machine.name
            lines += [f"{name} A {machine.address}", f"{name} AAAA {machine.address6}"]
    return _ZONE + "".join(f"{line}\n" for line in lines)


def config_text(farm: LabFarm, own: LabMachine) -> str:
    """Return the text of lbdns.toml for the DNS server on the machine ``own``.

    The configuration defines a pool that contains all web hosts and has one DNS name for each policy. If the hosts have
    sites, another pool with the same hosts sends clients to their nearest site, and each site has a pool of its own.
    """
    networks = _strings(str(NETWORK4), str(NETWORK6))
    return _CONFIG.format(
        listen=_strings(f"{own.address}:{DNS_PORT}", f"[{own.address6}]:{DNS_PORT}"),
        zone=ZONE,
        pool=POOL,
        members=_strings(*(host.name for host in farm.hosts)),
        score=farm.score,
        check=farm.check,
        names=", ".join(f'"{owner}" = "{policy}"' for owner, policy in NAMES.items()),
        address=own.address,
        report_port=REPORT_PORT,
        http_port=HTTP_PORT,
        networks=networks,
        sites=_site_tables(farm),
        join=_JOIN.format(names=_strings(farm.joining), networks=networks, most=MAX_JOINED) if farm.joining else "",
    )


def _site_tables(farm: LabFarm) -> str:
    if not farm.sites:
        return ""
    members = {site: [host.name for host in farm.hosts_at(site)] for site in farm.sites}
    sites = ", ".join(f"{site} = [{_strings(*names)}]" for site, names in members.items())
    pools = [_pool_table("sites", farm.host_names, BEST_SITES) + f"sites = {{ {sites} }}\n"]
    pools += [_pool_table(f"site-{site}", names, site_owner(site)) for site, names in members.items()]
    return f'[sites]\norder = [{_strings(*farm.sites)}]\nnetworks = "{NETWORKS}"\n\n{"".join(pools)}\n'


def _pool_table(name: str, members: Sequence[str], owner: str) -> str:
    return (
        f'[[pool]]\nname = "{name}"\nzone = "{ZONE}"\nmembers = [{_strings(*members)}]\n'
        f'names = {{ "{owner}" = "best" }}\n'
    )


def networks_text(farm: LabFarm, machines: Sequence[LabMachine]) -> str:
    """Return the table of networks, in which each client's own site comes first."""
    return "".join(
        f"{address} {' '.join(sorted(farm.sites, key=lambda site: site != machine.site))}\n"
        for machine in machines
        if machine.kind == "client"
        for address in (*(f"{address}/32" for address in machine.addresses4), f"{machine.address6}/128")
    )


@dataclass(frozen=True, slots=True)
class DnsServerFiles:
    """The files of a lab's DNS server, all in ``folder``. The server receives queries and reports at ``address``."""

    folder: Path
    address: str

    @property
    def config(self) -> Path:
        return self.folder / "lbdns.toml"

    @property
    def state(self) -> Path:
        """The directory that the server uses as its state_dir."""
        return self.folder / "state"

    def agent_key(self, host: str) -> Path:
        """Return the path of the key file for a web host's agent."""
        return self.folder / f"{host}.key"


def write_site(farm: LabFarm, machines: Sequence[LabMachine], folder: Path) -> DnsServerFiles:
    """Write the configuration file, the zone file and new keys of the DNS server to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    own = next(machine for machine in machines if machine.kind == "dns")
    site = DnsServerFiles(folder, own.address)
    master = new_master_key()
    _write_private(folder / "report.key", master.line())
    for host in farm.hosts:
        _write_private(site.agent_key(host.name), agent_line(master.agent_key(host.name)))
    (folder / f"{ZONE}.zone").write_text(zone_text(machines))
    if farm.sites:
        (folder / NETWORKS).write_text(networks_text(farm, machines))
    site.config.write_text(config_text(farm, own))
    return site


def serve(programs: LabPrograms, place: PlacedMachine, site: DnsServerFiles) -> LabProgram:
    """Start ``lbdns serve`` and wait until it answers DNS queries and HTTP requests. Raises LbdnsError."""
    command = place.command(sys.executable, "-m", "lbdns", "serve", "-c", str(site.config))
    return programs.start("lbdns", command, ready=lambda: is_serving(place))


def is_serving(place: PlacedMachine) -> bool:
    """Return whether lbdns answers DNS queries and HTTP requests. lbdns opens its HTTP interface last."""
    if not answers_dns(place, f"ns.{ZONE}"):
        return False
    try:
        status(place)
    except LbdnsError:
        return False
    return True


def status(place: PlacedMachine) -> dict[str, Any]:
    """Return the status document that lbdns serves at /api/v1/status. Raises LbdnsError."""
    server = HttpLocation(f"http://{place.machine.address}:{HTTP_PORT}")
    found: dict[str, Any] = json.loads(inside(place.namespace, lambda: fetch(server, STATUS_PATH)))
    return found


def _strings(*texts: str) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def _write_private(path: Path, line: str) -> None:
    path.unlink(missing_ok=True)
    with open(path, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(f"{line}\n")


def unbound_conf(machine: LabMachine, dns: LabMachine, min_ttl: int, folder: Path) -> str:
    """Return the text of unbound.conf for a resolver on ``machine`` that queries the server on ``dns``.

    The resolver caches each answer for its TTL, or for ``min_ttl`` seconds if the TTL is shorter. Unbound measures time
    in whole seconds, so it caches even an answer with a TTL of 0 until the current second ends. In a test with 20
    queries in 6 s, it forwarded only 7 of them to lbdns.
    """
    return _UNBOUND_CONF.format(
        address=machine.address,
        address6=machine.address6,
        port=DNS_PORT,
        network4=NETWORK4,
        network6=NETWORK6,
        folder=folder,
        min_ttl=min_ttl,
        zone=ZONE,
        dns=dns.address,
    )


def start_resolver(
    programs: LabPrograms, place: PlacedMachine, dns: LabMachine, farm: LabFarm, folder: Path
) -> LabProgram:
    """Start the resolver on a machine with its files in ``folder``, and wait until it responds. Raises LbdnsError."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "unbound.conf"
    config.write_text(unbound_conf(place.machine, dns, farm.resolver_min_ttl, folder))
    # -p: write no PID file, since the lab already has the process ID
    command = place.command(path_of("unbound"), "-d", "-p", "-c", str(config))
    return programs.start(place.machine.name, command, ready=lambda: answers_dns(place, f"ns.{ZONE}"))
