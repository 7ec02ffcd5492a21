"""Writes the demo's files (configuration, zones and keys) into a separate directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.keys import agent_line, new_master_key

LOOPBACK: Final = "127.0.0.1"
LOOPBACK6: Final = "::1"


@dataclass(frozen=True, slots=True)
class Host:
    """A web server of the demo."""

    name: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The ports, hosts and settings of one demo. All ports are on the loopback interface."""

    dns_port: int = 5300
    report_port: int = 7777
    http_port: int = 8053
    web_port: int = 8080
    ipv6: bool = True  # whether the machine has ::1; only one host gets this address, since there is no second one
    interval: float = 1.0  # seconds between reports
    log_level: str = "error"  # log lines must not bury the list of commands to try

    @property
    def hosts(self) -> tuple[Host, ...]:
        ipv6 = (LOOPBACK6,) if self.ipv6 else ()
        return (
            Host("bilbo", ("127.0.0.16",)), Host("frodo", ("127.0.0.17",)), Host("gandalf", ("127.0.0.18", *ipv6)),
        )  # fmt: skip

    def web_endpoints(self, host: Host) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(address, self.web_port) for address in host.addresses)


def key_file(folder: Path, host: Host) -> Path:
    return folder / f"{host.name}.key"


def write(plan: DemoPlan, folder: Path) -> Path:
    """Write all files into the private directory ``folder``, and return the path of the configuration file.

    The key files contain newly generated keys, and can be read only by their owner.
    """
    config, master = folder / "lbdns.toml", new_master_key()
    write_private(folder / "report.key", master.line())
    for host in plan.hosts:
        write_private(key_file(folder, host), agent_line(master.agent_key(host.name)))
    (folder / "hobbit.zone").write_text(_zone(plan))
    (folder / "127.0.0.rev").write_text(_reverse_zone(plan))
    config.write_text(_config(plan))
    return config


def write_private(path: Path, line: str) -> None:
    """Write a line to a new file that only its owner can read."""
    path.touch(0o600, exist_ok=False)
    path.write_text(f"{line}\n", "ascii")


SOA: Final = """\
$TTL 1h
@  IN SOA ns.hobbit. hostmaster.hobbit. ( 1 1h 15m 1w 5m )
   IN NS  ns.hobbit.
"""


def _zone(plan: DemoPlan) -> str:
    addresses = [(host.name, address) for host in plan.hosts for address in host.addresses]
    lines = [f"{name} {'AAAA' if ':' in address else 'A'} {address}" for name, address in addresses]
    return SOA + "\n".join([f"ns A {LOOPBACK}", *lines]) + "\n"


def _reverse_zone(plan: DemoPlan) -> str:
    lines = [f"{host.addresses[0].rpartition('.')[2]} PTR {host.name}.hobbit." for host in plan.hosts]
    return SOA + "\n".join(["1 PTR ns.hobbit.", *lines]) + "\n"


def _config(plan: DemoPlan) -> str:
    members = ", ".join(f'"{host.name}"' for host in plan.hosts)
    zone = '\n[[zone]]\nname = "0.0.127.in-addr.arpa"\nfile = "127.0.0.rev"\n'
    return server_config(plan.dns_port, plan.report_port, plan.http_port, f"members = [{members}]") + zone


def server_config(dns_port: int, report_port: int, http_port: int, members: str) -> str:
    """Return a configuration with the zone hobbit and the pool web.

    ``members`` is the line that lists the pool's members. The last table is [web].
    """
    return f"""\
[server]
listen = ["{LOOPBACK}:{dns_port}"]
state_dir = "state"
control = "control.sock"

[[zone]]
name = "hobbit"
file = "hobbit.zone"

[[pool]]
name = "web"
zone = "hobbit"
{members}

[collector]
listen = ["{LOOPBACK}:{report_port}"]
key_file = "report.key"

[web]
listen = "{LOOPBACK}:{http_port}"
"""
