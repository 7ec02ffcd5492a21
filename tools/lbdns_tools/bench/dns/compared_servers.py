"""Starts the DNS servers that the benchmarks compare. Each server uses one process or thread and listens on a wildcard
address.

The peers run without response rate limiting, which gives them an advantage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from lbdns_tools.bench.dns.benchmark_farm import BEST, BenchmarkFarm, LbdnsProgram, reporting_members, zone_text
from lbdns_tools.bench.dns.latency_prober import await_answer, query_wire
from lbdns_tools.bench.measured_processes import BenchmarkError, MeasuredProcess, need, running
from lbdns_tools.free_ports import free_port

START: Final = 120.0  # seconds a server may take until its first answer, and until it logs that it is ready


#: Writes the configuration of a peer into a folder, for a port and a zone file, and returns the command that starts it
PeerSetup = Callable[[Path, int, Path], list[str]]


def _nsd(folder: Path, port: int, zone: Path) -> list[str]:
    # Minimal responses, as lbdns sends them, are cheaper
    config = folder / "nsd.conf"
    config.write_text(
        f'server:\n ip-address: 0.0.0.0@{port}\n username: ""\n server-count: 1\n database: ""\n pidfile: ""\n'
        f' zonesdir: "{folder}"\n xfrdfile: "{folder}/xfrd.state"\n zonelistfile: "{folder}/zone.list"\n'
        f" minimal-responses: yes\n rrl-ratelimit: 0\n verbosity: 0\n"
        f'remote-control:\n control-enable: no\nzone:\n name: hobbit\n zonefile: "{zone}"\n'
    )
    return [need("nsd", "nsd"), "-d", "-c", str(config)]


def _knot(folder: Path, port: int, zone: Path) -> list[str]:
    config = folder / "knot.conf"
    config.write_text(
        f'server:\n  listen: 0.0.0.0@{port}\n  rundir: "{folder}"\n'
        "  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n"
        f'log:\n  - target: stderr\n    any: error\ndatabase:\n  storage: "{folder}"\n'
        f'zone:\n  - domain: hobbit\n    file: "{zone}"\n    zonefile-sync: -1\n    journal-content: none\n'
    )
    return [need("knotd", "knot"), "-c", str(config)]


def _gdnsd(folder: Path, port: int, zone: Path) -> list[str]:
    # gdnsd raises a TTL of 0 to 5 and answers an alias without its target
    for name in ("zones", "run", "state"):
        (folder / name).mkdir()
    (folder / "zones" / "hobbit").write_text(zone.read_text())
    (folder / "config").write_text(
        f"options => {{\n listen => [ 0.0.0.0:{port} ]\n udp_threads => 1\n tcp_threads => 1\n"
        f" run_dir => {folder}/run\n state_dir => {folder}/state\n}}\n"
    )
    return [need("gdnsd", "gdnsd"), "-c", str(folder), "start"]


def _pdns(folder: Path, port: int, zone: Path) -> list[str]:
    (folder / "named.conf").write_text(f'zone "hobbit" {{ type master; file "{zone}"; }};\n')
    (folder / "pdns.conf").write_text(
        f"launch=bind\nbind-config={folder}/named.conf\nlocal-address=0.0.0.0\nlocal-port={port}\n"
        f"receiver-threads=1\ndistributor-threads=1\ncache-ttl=20\nquery-cache-ttl=20\nnegquery-cache-ttl=60\n"
        f"socket-dir={folder}\nguardian=no\ndaemon=no\nloglevel=3\nsecurity-poll-suffix=\n"
    )
    return [need("pdns_server", "pdns-server pdns-backend-bind"), f"--config-dir={folder}"]


def _coredns(folder: Path, port: int, zone: Path, binary: Path) -> list[str]:
    (folder / "Corefile").write_text(f"hobbit:{port} {{\n  bind 0.0.0.0\n  file {zone}\n  errors\n}}\n")
    program = need(str(binary), "golang; go install github.com/coredns/coredns@latest")
    return ["env", "GOMAXPROCS=1", program, "-conf", str(folder / "Corefile"), "-quiet"]


PEERS: Final[Mapping[str, PeerSetup]] = {"nsd": _nsd, "knot": _knot, "gdnsd": _gdnsd, "pdns": _pdns}


@dataclass(frozen=True, slots=True)
class MeasuredServer:
    """A server that listens on ``port``. ``note`` is a comment on the server's results."""

    process: MeasuredProcess
    port: int
    note: str = ""


@contextlib.contextmanager
def serving_peer(
    name: str, folder: Path, core: int, *, coredns: Path | None = None, ttl: int = 0
) -> Iterator[MeasuredServer]:
    """Start a peer, and wait until it answers. At the end of the with statement, stop it. ``coredns`` is CoreDNS's
    path."""
    folder.mkdir()
    port = free_port()
    path = folder / "hobbit.zone"
    path.write_text(zone_text(fixed=True, ttl=ttl))
    setup = partial(_coredns, binary=coredns) if coredns and name == "coredns" else PEERS[name]
    with running(name, setup(folder, port, path), core, folder / "log") as process:
        _await_first_answer(process, port)
        yield MeasuredServer(process, port)


@contextlib.contextmanager
def serving_lbdns(farm: BenchmarkFarm, core: int, name: str = "lbdns") -> Iterator[MeasuredServer]:
    """Run lbdns with ``farm`` for the duration of a with statement. Each member of the farm sends a report every
    second."""
    with (
        running(name, farm.command(), core, farm.folder / "log") as process,
        reporting_members(farm.report_port, farm.key),
    ):
        _await_first_answer(process, farm.port)
        plane = verified_plane(process, farm.plane)
        yield MeasuredServer(process, farm.port, f"{farm.note()}; {plane} plane")


@contextlib.contextmanager
def serving_beside_peers(
    programs: Mapping[str, tuple[str, LbdnsProgram]], peers: Sequence[str], folder: Path, core: int, **options: Any
) -> Iterator[dict[str, MeasuredServer]]:
    """Run all servers at the same time for the duration of a with statement. An idle server uses almost no CPU time.

    ``programs`` maps the name of each lbdns server to its plane and program.
    """
    with contextlib.ExitStack() as stack:
        servers: dict[str, MeasuredServer] = {}
        for name, (plane, program) in programs.items():
            place = folder / name.replace(" ", "-")
            place.mkdir()
            farm = BenchmarkFarm(place, plane=plane, program=program)
            servers[name] = stack.enter_context(serving_lbdns(farm, core, name))
        for name in peers:
            servers[name] = stack.enter_context(serving_peer(name, folder / name, core, **options))
        yield servers


def verified_plane(process: MeasuredProcess, expected: str) -> str:
    """Return the plane that lbdns names in its log once it is ready. Raises BenchmarkError if the plane is not
    ``expected``.
    """
    plane = process.await_log(r"ready: .*\b(\w+) plane", START, "which plane answers")[1]
    if expected not in ("auto", plane):
        raise BenchmarkError(f"{process.name} must use the {expected} plane, but uses the {plane} plane")
    return plane


def _await_first_answer(process: MeasuredProcess, port: int) -> None:
    try:
        await_answer(port, query_wire(*BEST), START)
    except BenchmarkError:
        process.require_alive()  # if the server has ended, raises an error with its log
        raise
