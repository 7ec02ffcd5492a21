"""The servers that are compared: how each is set up, with one process or thread that answers, on a wildcard address.

Response rate limiting of peers is off, which favours them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lbdns_tools.bench.dns.farm import BEST, Farm, Reports, zone_text
from lbdns_tools.bench.dns.prober import await_answer, query_wire
from lbdns_tools.bench.dns.processes import BenchError, Running, need, running
from lbdns_tools.ports import free_port

START: Final = 20.0  # seconds a server may take to its first answer


@dataclass(frozen=True, slots=True)
class Setup:
    """How one peer is started."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def _nsd(folder: Path, port: int, zone: Path) -> Setup:
    # Packets of its own making: minimal responses are what lbdns gives, and cheaper
    config = folder / "nsd.conf"
    config.write_text(
        f'server:\n ip-address: 0.0.0.0@{port}\n username: ""\n server-count: 1\n database: ""\n pidfile: ""\n'
        f' zonesdir: "{folder}"\n xfrdfile: "{folder}/xfrd.state"\n zonelistfile: "{folder}/zone.list"\n'
        f" minimal-responses: yes\n rrl-ratelimit: 0\n verbosity: 0\n"
        f'remote-control:\n control-enable: no\nzone:\n name: hobbit\n zonefile: "{zone}"\n'
    )
    return Setup([need("nsd", "nsd"), "-d", "-c", str(config)])


def _knot(folder: Path, port: int, zone: Path) -> Setup:
    config = folder / "knot.conf"
    config.write_text(
        f'server:\n  listen: 0.0.0.0@{port}\n  rundir: "{folder}"\n'
        "  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n"
        f'log:\n  - target: stderr\n    any: error\ndatabase:\n  storage: "{folder}"\n'
        f'zone:\n  - domain: hobbit\n    file: "{zone}"\n    zonefile-sync: -1\n    journal-content: none\n'
    )
    return Setup([need("knotd", "knot"), "-c", str(config)])


def _gdnsd(folder: Path, port: int, zone: Path) -> Setup:
    # It raises a TTL of 0 to 5 and answers an alias without its target
    for name in ("zones", "run", "state"):
        (folder / name).mkdir()
    (folder / "zones" / "hobbit").write_text(zone.read_text())
    (folder / "config").write_text(
        f"options => {{\n listen => [ 0.0.0.0:{port} ]\n udp_threads => 1\n tcp_threads => 1\n"
        f" run_dir => {folder}/run\n state_dir => {folder}/state\n}}\n"
    )
    return Setup([need("gdnsd", "gdnsd"), "-c", str(folder), "start"])


def _pdns(folder: Path, port: int, zone: Path) -> Setup:
    (folder / "named.conf").write_text(f'zone "hobbit" {{ type master; file "{zone}"; }};\n')
    (folder / "pdns.conf").write_text(
        f"launch=bind\nbind-config={folder}/named.conf\nlocal-address=0.0.0.0\nlocal-port={port}\n"
        f"receiver-threads=1\ndistributor-threads=1\ncache-ttl=20\nquery-cache-ttl=20\nnegquery-cache-ttl=60\n"
        f"socket-dir={folder}\nguardian=no\ndaemon=no\nloglevel=3\nsecurity-poll-suffix=\n"
    )
    return Setup([need("pdns_server", "pdns-server pdns-backend-bind"), f"--config-dir={folder}"])


def _coredns(binary: Path) -> Callable[[Path, int, Path], Setup]:
    def write(folder: Path, port: int, zone: Path) -> Setup:
        (folder / "Corefile").write_text(f"hobbit:{port} {{\n  bind 0.0.0.0\n  file {zone}\n  errors\n}}\n")
        words = [need(str(binary), "golang; go install github.com/coredns/coredns@latest")]
        return Setup([*words, "-conf", str(folder / "Corefile"), "-quiet"], {"GOMAXPROCS": "1"})

    return write


PEERS: Final[Mapping[str, Callable[[Path, int, Path], Setup]]] = {
    "nsd": _nsd,
    "knot": _knot,
    "gdnsd": _gdnsd,
    "pdns": _pdns,
}


def peers(coredns: Path | None = None) -> dict[str, Callable[[Path, int, Path], Setup]]:
    return {**PEERS, **({"coredns": _coredns(coredns)} if coredns else {})}


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers."""

    running: Running
    port: int
    note: str = ""


@contextlib.contextmanager
def serving_peer(
    name: str, folder: Path, core: int, *, coredns: Path | None = None, ttl: int = 0, zone: str = ""
) -> Iterator[Served]:
    """A peer with the zone, until its first answer and then for the length of a with statement."""
    folder.mkdir()
    port = free_port()
    path = folder / "hobbit.zone"
    path.write_text(zone_text(fixed=True, ttl=ttl) + zone)
    setup = peers(coredns)[name](folder, port, path)
    with running(name, setup.command, core, folder / "log", setup.environment) as process:
        _await(process, port)
        yield Served(process, port)


@contextlib.contextmanager
def serving_lbdns(farm: Farm, core: int, name: str = "lbdns") -> Iterator[Served]:
    """lbdns with its farm and reports that come in every second."""
    with (
        running(name, farm.command(), core, farm.folder / "log") as process,
        Reports(farm.report_port, farm.key),
    ):
        _await(process, farm.port)
        yield Served(process, farm.port, f"{farm.note()}; {plane_of(process.log.read_text(), farm.plane)}")


def plane_of(log: str, wanted: str) -> str:
    """Who answers, of what lbdns says at its start. Raises BenchError if that is not who was wanted."""
    found = re.search(r"ready: .*\b(\w+) plane", log)
    plane = found[1] if found else "unknown"
    if wanted not in ("auto", plane):
        raise BenchError(f"lbdns answers by the {plane} plane, not the {wanted} one")
    return f"{plane} plane"


def _await(process: Running, port: int) -> None:
    try:
        await_answer(port, query_wire(*BEST), START, step=0.05)
    except Exception:
        process.demand_alive()  # says more, if it has ended
        raise
