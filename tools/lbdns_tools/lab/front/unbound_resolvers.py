"""Unbound as the caching resolver between a lab's clients and lbdns: its unbound.conf and its start."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lbdns_shared.endpoint import DNS_PORT
from lbdns_tools.installed_programs import path_of
from lbdns_tools.lab.farm.lab_farm import NETWORK4, NETWORK6, ZONE, LabFarm, LabMachine
from lbdns_tools.lab.machines.lab_programs import LabProgram, LabPrograms
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.machines.server_probes import answers_dns

# Other names are refused at once: the lab has no way out, and queries to the root servers would time out. Only the
# iterator module, without validation, because the zone is not signed.
_CONFIG: Final = """\
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


def unbound_conf(machine: LabMachine, dns: LabMachine, min_ttl: int, folder: Path) -> str:
    """Return unbound.conf for a resolver on ``machine`` that queries the server on ``dns``.

    It keeps answers for at least ``min_ttl`` seconds. With 0 it obeys the TTL; but unbound counts whole seconds and
    reuses even an answer with TTL 0 until the second ends (measured: of 20 queries within 6 s, 7 reached lbdns).
    """
    return _CONFIG.format(
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


def start(programs: LabPrograms, place: PlacedMachine, dns: LabMachine, farm: LabFarm, folder: Path) -> LabProgram:
    """Start a machine's resolver with its files in ``folder`` and wait until it answers. Raises LbdnsError."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "unbound.conf"
    config.write_text(unbound_conf(place.machine, dns, farm.resolver_min_ttl, folder))
    # -p: without a PID file, since the lab knows its process
    command = place.command(path_of("unbound"), "-d", "-p", "-c", str(config))
    return programs.start(place.machine.name, command, ready=lambda: answers_dns(place, f"ns.{ZONE}"))
