"""Caching resolvers between the clients of the lab and lbdns: unbound, which asks nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lbdns.endpoint import DNS_PORT
from lbdns_tools.installed import path_of
from lbdns_tools.lab.addresses import NETWORK4, NETWORK6, Machine
from lbdns_tools.lab.asking import answers_dns
from lbdns_tools.lab.farm import ZONE, Farm
from lbdns_tools.lab.place import Place
from lbdns_tools.lab.programs import Programs, Running

# The lab's network ends at the lab: who asks for something else is told so at once, where the root's servers would be
# waited for. The iterator alone: nothing in the zone is signed, and there is no chain of trust to it.
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


def unbound_conf(machine: Machine, dns: Machine, min_ttl: int, folder: Path) -> str:
    """The resolver on ``machine`` that asks the server on ``dns``. Pure.

    What has a TTL below ``min_ttl`` seconds is kept that long all the same, as some resolvers do. 0: as the TTL says,
    but unbound counts whole seconds, so that even an answer with TTL 0 is given until the second is over (measured:
    20 questions within 6 s came to lbdns 7 times).
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


def start(programs: Programs, place: Place, dns: Machine, farm: Farm, folder: Path) -> Running:
    """Start the resolver of a machine, its files in ``folder``, and wait until it answers. Raises LbdnsError."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "unbound.conf"
    config.write_text(unbound_conf(place.machine, dns, farm.resolver_min_ttl, folder))
    # -p: no file with its number; whoever started it knows it
    command = place.command(path_of("unbound"), "-d", "-p", "-c", str(config))
    return programs.start(place.machine.name, command, ready=lambda: answers_dns(place, f"ns.{ZONE}"))
