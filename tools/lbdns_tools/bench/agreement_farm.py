"""The farm of the benchmark ``agreement``: three DNS servers on a bus, with their own or with shared collectors."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lbdns.client.http_client import STATUS_PATH, HttpLocation, fetch
from lbdns_tools.bench.agreement_network import LOOPBACK, AgreementNetwork, Place
from lbdns_tools.bench.dns.benchmark_farm import ZONE_HEAD, address_records
from lbdns_tools.bench.measured_processes import BenchmarkError, need, running
from lbdns_tools.free_ports import free_ports

POLICIES: Final = {"best": "best", "least": "least_charged"}  # by name
MEMBERS: Final = ("m0", "m1", "m2", "m3")
BUS, CLIENTS = "bus", "clients"  # names of places
SERVERS: Final = ("ns1", "ns2", "ns3")
COLLECTORS: Final = ("collector1", "collector2")
#: Each server has its own collector, or all follow COLLECTORS over the bus
OWN, SHARED = "own", "shared"
START: Final = 60.0  # seconds a program may take to start, and servers to receive the counts of the others
FAKETIME: Final = "/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1"
_POLL: Final = 0.1  # seconds


def receivers_of(collectors: str) -> tuple[str, ...]:
    """Return the names of the places to which agents send their reports."""
    return SERVERS if collectors == OWN else COLLECTORS


def places_of(collectors: str) -> tuple[str, ...]:
    """Return the names of all places of a farm. Each agent has the name of its member."""
    return (BUS, CLIENTS, *MEMBERS, *SERVERS, *(COLLECTORS if collectors == SHARED else ()))


@dataclass(frozen=True, slots=True)
class Program:
    """The files and ports of a DNS server or of a collector. A server that follows collectors has no port for reports,
    and a collector none for queries."""

    place: Place
    config: Path
    dns: int
    reports: int
    web: int

    def fetch(self, path: str) -> bytes:
        location = HttpLocation(f"http://{self.place.address}:{self.web}")
        return self.place.call(lambda: fetch(location, path))

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.fetch(STATUS_PATH))
        return found

    def answers(self) -> dict[str, dict[str, float]]:
        """Return the answers so far by policy and member."""
        found: dict[str, dict[str, float]] = {}
        for line in self.fetch("/metrics").decode().splitlines():
            if line.startswith("lbdns_answers_total{"):
                labels, _, value = line.removeprefix("lbdns_answers_total{").partition("} ")
                named = dict(label.split("=") for label in labels.replace('"', "").split(","))
                found.setdefault(named["policy"], {})[named["member"]] = float(value)
        return found


@dataclass(frozen=True, slots=True)
class AgreementFarm:
    """A running farm. ``receivers`` are the programs to which the agents send their reports."""

    network: AgreementNetwork
    servers: Sequence[Program]
    receivers: Sequence[Program]


def write_program(folder: Path, place: Place, bus: str, key: Path, collectors: str) -> Program:
    """Write the configuration and the zone of a server or a collector into a new folder. ``bus`` is the bus's URL."""
    folder.mkdir()
    (folder / "farm.zone").write_text(ZONE_HEAD + address_records(MEMBERS))
    dns, reports, web = free_ports(3)
    listen = "" if place.name in COLLECTORS else f'listen = ["{place.address}:{dns}"]\ncontrol = "control.sock"\n'
    limit = "[rate_limit]\nresponses_per_second = 0\n" if listen else ""
    follows = listen and collectors == SHARED
    receive = 'connect = "bus"' if follows else f'listen = ["{place.address}:{reports}"]'
    allow = "" if place.address == LOOPBACK else f'allow = ["{place.address}/32"]\n'
    (folder / "lbdns.toml").write_text(
        f'[server]\nstate_dir = "state"\n{listen}[[zone]]\nname = "farm"\nfile = "farm.zone"\n'
        f'[[pool]]\nname = "web"\nzone = "farm"\nmembers = {json.dumps(list(MEMBERS))}\n'
        f"names = {{ {', '.join(f'{name} = {policy!r}' for name, policy in POLICIES.items())} }}\n"
        f'[collector]\n{receive}\nkey_file = "{key}"\n[web]\nlisten = "{place.address}:{web}"\n{allow}'
        f'[bus]\nurl = ["{bus}"]\n{limit}'
    )
    return Program(place, folder / "lbdns.toml", dns, reports, web)


def faked(ahead: str) -> list[str]:
    """Return the beginning of a command whose wall clock is ahead. Raises BenchmarkError without libfaketime."""
    if not ahead:
        return []
    library = Path(FAKETIME.format(os.uname().machine))
    if not library.exists():
        raise BenchmarkError(f"the case 'clock' needs {library}; install the Debian package libfaketime")
    return ["env", f"LD_PRELOAD={library}", f"FAKETIME={ahead}", "FAKETIME_DONT_FAKE_MONOTONIC=1"]


@contextlib.contextmanager
def serving(
    folder: Path, key: Path, network: AgreementNetwork, collectors: str, ahead: str = ""
) -> Iterator[AgreementFarm]:
    """Run the NATS server, the collectors and the DNS servers, and yield them once each DNS server receives the counts
    of the others. ``ahead`` is by how much the last server's clock is ahead. Raises LbdnsError."""
    folder.mkdir()
    (port,) = free_ports(1)
    bus = network.places[BUS]
    python = sys.executable, "-m"
    with contextlib.ExitStack() as stack:

        def start(place: Place, *words: str) -> None:
            process = running(place.name, place.command(*words), None, folder / f"{place.name}.log")
            stack.enter_context(process).await_log("ready", START, "'ready'")

        def write(name: str) -> Program:
            url = f"nats://{bus.address}:{port}"
            return write_program(folder / name, network.places[name], url, key, collectors)

        start(bus, need("nats-server", "nats-server"), "-a", bus.address, "-p", str(port))
        receivers = [write(name) for name in COLLECTORS] if collectors == SHARED else []
        servers = [write(name) for name in SERVERS]
        for each in receivers:
            start(each.place, *python, "lbdns_collector", "-c", str(each.config))
        for each in servers:
            clock = faked(ahead if each is servers[-1] else "")
            start(each.place, *clock, *python, "lbdns", "serve", "-c", str(each.config))
        _await_others(servers)
        yield AgreementFarm(network, servers, receivers or servers)


def _await_others(servers: Sequence[Program]) -> None:
    deadline = time.monotonic() + START
    while any(len(server.status()["shared_answers"]["servers"]) < len(servers) - 1 for server in servers):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the servers do not receive each other's counts within {START:g} s")
        time.sleep(_POLL)
