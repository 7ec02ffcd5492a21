"""Measures how much the members' shares differ between three DNS servers that share their answers over a bus.

The benchmark starts a NATS server and three servers. Simulated agents send constant loads, and each server gets its own
rate of queries, half of them for the policy ``best`` and half for ``least_charged``. The figure of a policy is the
largest difference between the shares that two servers gave one member.

With ``--collectors own``, each server receives the reports itself over UDP. With ``--collectors shared``, two
collectors receive them, and the servers follow both over the bus. With ``--namespaces``, each server, collector and
agent, the NATS server and the clients have a network namespace of their own, so that packets can be lost between them.
The cases are: all packets arrive; the last server's clock is 20 s ahead (libfaketime); each receiver of reports loses
another share of them; the servers lose packets from the bus; one agent reaches all receivers but the last (half-cut);
the last server is cut off from the bus, in both directions or in one.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import dns.message
from rich.table import Table

from lbdns_shared.keys import MasterKey
from lbdns_shared.report import Report, encode
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.agreement_farm import (
    BUS,
    CLIENTS,
    MEMBERS,
    OWN,
    POLICIES,
    SERVERS,
    SHARED,
    AgreementFarm,
    Program,
    places_of,
    receivers_of,
    serving,
)  # fmt: skip
from lbdns_tools.bench.agreement_network import Place, network
from lbdns_tools.bench.dns.benchmark_farm import write_key
from lbdns_tools.bench.measured_processes import BenchmarkError

TAKES: Final = "about 3 minutes (80 s for each case; 100 s if packets are lost)"
EXAMPLE: Final = "--namespaces --collectors own shared"
RATES: Final = (700.0, 500.0, 350.0)  # queries/s of each server
#: Cores, requests/s per core and present requests/s of each agent's host
HOSTS: Final = ((2.0, 400.0, 300.0), (4.0, 400.0, 500.0), (4.0, 300.0, 350.0), (8.0, 350.0, 900.0))
WARM_UP: Final = 12.0  # seconds: rates are averages over 10 s
TARGET: Final = 0.02  # the largest difference between two servers that receive the same reports
TARGET_TEXT: Final = "servers that receive the same reports differ by at most 2 %"


@dataclass(frozen=True, slots=True)
class Case:
    """What the servers do not have in common. ``alike`` contains the collectors (OWN, SHARED) with which all servers
    receive the same reports and counts nevertheless."""

    name: str
    alike: tuple[str, ...] = (OWN, SHARED)
    ahead: str = ""  # by how much the last server's clock is ahead
    reports: tuple[float, ...] = ()  # share of the reports that each of the last receivers does not receive
    lost: tuple[tuple[str, str, float], ...] = ()  # places, and the share of the packets from the first to the second
    is_half_cut: bool = False  # whether the last receiver gets no reports of the first agent

    def losses(self, receivers: Sequence[str]) -> list[tuple[str, str, float]]:
        """Return sender, receiver and the share of lost packets of each link that loses some."""
        shares = zip(reversed(receivers), reversed(self.reports), strict=False)
        found = [(agent, receiver, share) for receiver, share in shares for agent in MEMBERS if share]
        return [*found, *self.lost, *([(MEMBERS[0], receivers[-1], 1.0)] if self.is_half_cut else [])]


_TO_BUS, _FROM_BUS = (SERVERS[-1], BUS, 1.0), (BUS, SERVERS[-1], 1.0)
CASES: Final = (
    Case("same_reports"),
    Case("clock", ahead="+20s"),
    Case("loss", (SHARED,), reports=(0.0, 0.1, 0.3)),
    Case("half-cut", (SHARED,), is_half_cut=True),
    # Over a connection that loses so many packets, some reports of shared collectors arrive too late
    Case("bus-loss", (OWN,), lost=((BUS, SERVERS[1], 0.1), (BUS, SERVERS[2], 0.3))),
    Case("bus-cut", (), lost=(_TO_BUS, _FROM_BUS)),
    Case("bus-cut-to", (), lost=(_TO_BUS,)),
    Case("bus-cut-from", (), lost=(_FROM_BUS,)),
)
BY_NAME: Final = {case.name: case for case in CASES}


class Agents:
    """Sends the reports of all agents to all receivers once per second, in a thread, until ``end`` is set."""

    def __init__(self, running: AgreementFarm, master: MasterKey) -> None:
        self.end = threading.Event()
        self._keys = [master.agent_key(name) for name in MEMBERS]
        self._targets = [(each.place.address, each.reports) for each in running.receivers]
        self._sockets = [running.network.places[name].call(_udp_socket) for name in MEMBERS]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        began, seq = time.monotonic(), 0
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(each) for each in self._sockets]
            while not self.end.wait(max(0.0, began + seq / len(HOSTS) - time.monotonic())):
                host = seq % len(HOSTS)
                datagram = self._report(host, 1 + seq // len(HOSTS))
                for target in self._targets:
                    with contextlib.suppress(OSError):
                        sockets[host].sendto(datagram, target)
                seq += 1

    def _report(self, host: int, seq: int) -> bytes:
        cores, speed, rate = HOSTS[host]
        used = rate / speed  # cores
        metrics = {
            "cpu_count": cores, "cpu_idle": 100 * (1 - used / cores), "run_queue": used, "busy_workers": used,
            "idle_workers": 20.0, "requests_per_s": rate, "requests_total": rate * seq, "httpd_cpu_seconds": used * seq,
        }  # fmt: skip
        return encode(Report(self._keys[host].host, 1, seq, time.time(), 1.0, metrics), self._keys[host])


class Clients:
    """Sends queries to one server at a fixed rate, in a thread, until ``end`` is set."""

    def __init__(self, place: Place, server: Program, rate: float) -> None:
        self._rate, self.end = rate, threading.Event()
        self._socket = place.call(_udp_socket)
        self._socket.connect((server.place.address, server.dns))
        self._socket.setblocking(False)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        queries = [dns.message.make_query(f"{name}.farm", "A").to_wire() for name in POLICIES]
        with self._socket as sock:
            began, sent = time.monotonic(), 0
            while not self.end.wait(0.01):
                while sent < (time.monotonic() - began) * self._rate:
                    query = queries[sent % len(queries)]
                    with contextlib.suppress(OSError):
                        sock.send((sent // 2 % 65536).to_bytes(2, "big") + query[2:])
                    sent += 1
                with contextlib.suppress(OSError):
                    while True:
                        sock.recv(4096)


def _udp_socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def shares_of(servers: Sequence[Program], answers: int) -> list[dict[str, dict[str, float]]]:
    """Wait until each server has sent ``answers`` answers under each policy. Return the shares by server, policy and
    member."""
    before = [server.answers() for server in servers]
    deadline = time.monotonic() + 10 * answers * len(POLICIES) / min(RATES)
    while True:
        time.sleep(1.0)
        counts = [
            {policy: {name: n - had[policy][name] for name, n in members.items()} for policy, members in now.items()}
            for had, now in zip(before, (server.answers() for server in servers), strict=True)
        ]
        if all(sum(members.values()) >= answers for found in counts for members in found.values()):
            return [
                {
                    policy: {name: n / sum(members.values()) for name, n in members.items()}
                    for policy, members in f.items()
                }
                for f in counts
            ]
        if time.monotonic() > deadline:
            raise BenchmarkError(f"a server did not send {answers} answers in time")


def difference(shares: Sequence[dict[str, dict[str, float]]], policy: str) -> float:
    """Return the largest difference between the shares that two servers gave one member."""
    columns = ([found[policy][name] for found in shares] for name in MEMBERS)
    return max(max(column) - min(column) for column in columns)


def measure_case(folder: Path, case: Case, collectors: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a farm in ``folder`` and return the shares and the differences. Raises LbdnsError."""
    key, master = folder / "report.key", write_key(folder)
    losses = case.losses(receivers_of(collectors))
    with (
        network(places_of(collectors), options.namespaces) as places,
        serving(folder / "farm", key, places, collectors, case.ahead) as running,
    ):
        agents = Agents(running, master)
        servers, clients = running.servers, places.places[CLIENTS]
        senders = [Clients(clients, server, rate) for server, rate in zip(servers, RATES, strict=True)]
        time.sleep(WARM_UP)
        for loss in losses:
            places.lose(*loss)
        time.sleep(WARM_UP if losses else 0.0)
        shares = shares_of(servers, options.answers)
        for end in (agents.end, *(each.end for each in senders)):
            end.set()
    return {
        "shares": shares,
        "difference": {policy: round(difference(shares, policy), 4) for policy in POLICIES.values()},
    }


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    results: dict[str, Any] = {"answers": options.answers, "namespaces": options.namespaces}
    names = options.cases or [case.name for case in CASES if options.namespaces or not case.losses(SERVERS)]
    alike = []
    for collectors in options.collectors:
        found = {}
        for name in names:
            command.progress(f"{collectors} collectors, {name}")
            part = folder / f"{collectors}-{name}"
            part.mkdir()
            found[name] = measure_case(part, BY_NAME[name], collectors, options)
            if collectors in BY_NAME[name].alike:
                alike += found[name]["difference"].values()
        results["cases" if collectors == OWN else "cases_shared"] = found
    return {**results, "met": max(alike, default=0.0) <= TARGET}


def tables(results: command.Results) -> command.Tables:
    for key, title in (("cases", "collectors of their own"), ("cases_shared", "shared collectors")):
        if key in results:
            yield _table(results[key], f"agreement of three servers with {title}")


def _table(cases: dict[str, Any], title: str) -> Table:
    table = Table("case", "policy", "largest difference", "shares by server", title=title)
    for name, case in cases.items():
        for policy, largest in case["difference"].items():
            rows = [" ".join(f"{100 * share:.1f}" for share in found[policy].values()) for found in case["shares"]]
            table.add_row(name, policy, f"{100 * largest:.2f} %", " | ".join(rows))
    return table


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--answers", int, 100, 1_000_000, 10_000, "answers of each server and policy")
    about = "the cases to measure (default: all that do not need --namespaces, or with --namespaces all)"
    parser.add_argument("--cases", nargs="+", choices=BY_NAME, default=[], help=about)
    about = "who receives the reports: each server's own collector, or two collectors that all servers follow"
    parser.add_argument("--collectors", nargs="+", choices=(OWN, SHARED), default=[OWN], help=f"{about} (default: own)")
    about = "run each part of the farm in a network namespace of its own (needs root)"
    parser.add_argument("--namespaces", action="store_true", help=about)
