"""Measures how much the members' shares differ between three DNS servers that share their answers over a bus.

The benchmark starts a NATS server and three servers with built-in collectors on the loopback. Simulated agents send
constant loads to each of them, and each server gets its own rate of queries, half of them for the policy ``best`` and
half for ``least_charged``. The figure of a policy is the largest difference between the shares that two servers gave
one member. The cases are: all reports arrive; 0, 10 and 30 % of the reports are lost; the third server's clock is 20 s
ahead (libfaketime); the third server receives no reports of one agent (half-cut), and therefore selects it no more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import dns.message
from rich.table import Table

from lbdns.client.http_client import HttpLocation, fetch
from lbdns_shared.keys import MasterKey
from lbdns_shared.report import Report, encode
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import ZONE_HEAD, address_records, write_key
from lbdns_tools.bench.measured_processes import BenchmarkError, need, running
from lbdns_tools.free_ports import free_ports

TAKES: Final = "about 6 minutes (80 s for each case)"
EXAMPLE: Final = "--answers 10000"
RATES: Final = (700.0, 500.0, 350.0)  # queries/s of each server
POLICIES: Final = {"best": "best", "least": "least_charged"}  # by name
#: Cores, requests/s per core and present requests/s of each agent's host
HOSTS: Final = ((2.0, 400.0, 300.0), (4.0, 400.0, 500.0), (4.0, 300.0, 350.0), (8.0, 350.0, 900.0))
WARM_UP: Final = 12.0  # seconds: rates are averages over 10 s
START: Final = 60.0  # seconds a server may take to start, and to hear the others
FAKETIME: Final = "/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1"
TARGET: Final = 0.02  # the largest difference between two servers that receive the same reports
TARGET_TEXT: Final = "servers that receive the same reports differ by at most 2 %"


@dataclass(frozen=True, slots=True)
class Case:
    """What the servers do not have in common."""

    name: str
    loss: tuple[float, float, float] = (0.0, 0.0, 0.0)  # share of the reports that each server does not receive
    ahead: str = ""  # by which the third server's clock is ahead
    is_cut: bool = False  # whether the third server receives no reports of the first agent


CASES: Final = (
    Case("same_reports"),
    Case("loss", loss=(0.0, 0.1, 0.3)),
    Case("clock", ahead="+20s"),
    Case("half-cut", is_cut=True),
)


@dataclass(frozen=True, slots=True)
class Server:
    """One server's files and ports."""

    config: Path
    dns: int
    reports: int
    web: int

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(fetch(HttpLocation(f"http://127.0.0.1:{self.web}"), "/api/v1/status"))
        return found

    def answers(self) -> dict[str, dict[str, float]]:
        """Return the answers so far by policy and member."""
        found: dict[str, dict[str, float]] = {}
        text = fetch(HttpLocation(f"http://127.0.0.1:{self.web}"), "/metrics").decode()
        for line in text.splitlines():
            if line.startswith("lbdns_answers_total{"):
                labels, _, value = line.removeprefix("lbdns_answers_total{").partition("} ")
                named = dict(label.split("=") for label in labels.replace('"', "").split(","))
                found.setdefault(named["policy"], {})[named["member"]] = float(value)
        return found


def names() -> list[str]:
    return [f"m{number}" for number in range(len(HOSTS))]


def write_server(folder: Path, bus: int, key: Path) -> Server:
    """Write the configuration and the zone of a server into a new folder."""
    folder.mkdir()
    (folder / "farm.zone").write_text(ZONE_HEAD + address_records(names()))
    dns_port, reports, web = free_ports(3)
    (folder / "lbdns.toml").write_text(
        f'[server]\nlisten = ["127.0.0.1:{dns_port}"]\nstate_dir = "state"\ncontrol = "control.sock"\n'
        '[[zone]]\nname = "farm"\nfile = "farm.zone"\n'
        f'[[pool]]\nname = "web"\nzone = "farm"\nmembers = {json.dumps(names())}\n'
        f"names = {{ {', '.join(f'{name} = {policy!r}' for name, policy in POLICIES.items())} }}\n"
        f'[collector]\nlisten = ["127.0.0.1:{reports}"]\nkey_file = "{key}"\n[web]\nlisten = "127.0.0.1:{web}"\n'
        f'[bus]\nurl = ["nats://127.0.0.1:{bus}"]\n[rate_limit]\nresponses_per_second = 0\n'
    )
    return Server(folder / "lbdns.toml", dns_port, reports, web)


class Agents:
    """Sends the reports of all agents to all servers once per second, in a thread, until ``end`` is set."""

    def __init__(self, servers: Sequence[Server], master: MasterKey, case: Case) -> None:
        self._servers, self._case, self.end = servers, case, threading.Event()
        self._keys = [master.agent_key(name) for name in names()]
        self._chance = random.Random(1)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        began, seq = time.monotonic(), 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            while not self.end.wait(max(0.0, began + seq / len(HOSTS) - time.monotonic())):
                self._send(sock, seq % len(HOSTS), 1 + seq // len(HOSTS))
                seq += 1

    def _send(self, sock: socket.socket, host: int, seq: int) -> None:
        cores, speed, rate = HOSTS[host]
        used = rate / speed  # cores
        metrics = {
            "cpu_count": cores, "cpu_idle": 100 * (1 - used / cores), "run_queue": used, "busy_workers": used,
            "idle_workers": 20.0, "requests_per_s": rate, "requests_total": rate * seq, "httpd_cpu_seconds": used * seq,
        }  # fmt: skip
        datagram = encode(Report(self._keys[host].host, 1, seq, time.time(), 1.0, metrics), self._keys[host])
        for number, server in enumerate(self._servers):
            is_cut = self._case.is_cut and host == 0 and number == 2
            if not is_cut and self._chance.random() >= self._case.loss[number]:
                sock.sendto(datagram, ("127.0.0.1", server.reports))


class Clients:
    """Sends queries to one server at a fixed rate, in a thread, until ``end`` is set."""

    def __init__(self, server: Server, rate: float) -> None:
        self._server, self._rate, self.end = server, rate, threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        queries = [dns.message.make_query(f"{name}.farm", "A").to_wire() for name in POLICIES]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", self._server.dns))
            sock.setblocking(False)
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


def faked(ahead: str) -> dict[str, str]:
    """Return the environment in which a program's wall clock is ahead. Raises BenchmarkError without libfaketime."""
    if not ahead:
        return {}
    library = Path(FAKETIME.format(os.uname().machine))
    if not library.exists():
        raise BenchmarkError(f"the case 'clock' needs {library}; install the Debian package libfaketime")
    return {"LD_PRELOAD": str(library), "FAKETIME": ahead, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@contextlib.contextmanager
def serving(folder: Path, key: Path, case: Case) -> Iterator[list[Server]]:
    """Run the NATS server and three servers, and yield them once each of them hears the others."""
    folder.mkdir()
    (port,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        bus = [need("nats-server", "nats-server"), "-a", "127.0.0.1", "-p", str(port)]
        stack.enter_context(running("nats-server", bus, None, folder / "nats.log")).await_log("ready", START, "'ready'")
        servers = [write_server(folder / f"ns{number}", port, key) for number in range(len(RATES))]
        for number, server in enumerate(servers):
            settings = faked(case.ahead) if number == 2 else {}
            line = ["env", *(f"{name}={value}" for name, value in settings.items())]
            line += [sys.executable, "-m", "lbdns", "serve", "-c", str(server.config)]
            process = stack.enter_context(running("lbdns", line, None, server.config.with_name("log")))
            process.await_log("ready", START, "'ready'")
        deadline = time.monotonic() + START
        while any(len(server.status()["shared_answers"]["servers"]) < len(servers) - 1 for server in servers):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"the servers do not hear each other within {START:g} s")
            time.sleep(0.1)
        yield servers


def shares_of(servers: Sequence[Server], answers: int) -> list[dict[str, dict[str, float]]]:
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
    columns = ([found[policy][name] for found in shares] for name in names())
    return max(max(column) - min(column) for column in columns)


def measure_case(folder: Path, key: Path, master: MasterKey, case: Case, answers: int) -> dict[str, Any]:
    with serving(folder, key, case) as servers:
        agents = Agents(servers, master, case)
        clients = [Clients(server, rate) for server, rate in zip(servers, RATES, strict=True)]
        time.sleep(WARM_UP)
        shares = shares_of(servers, answers)
        for end in (agents.end, *(each.end for each in clients)):
            end.set()
    return {
        "shares": shares,
        "difference": {policy: round(difference(shares, policy), 4) for policy in POLICIES.values()},
    }


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    master = write_key(folder)
    found = {
        case.name: measure_case(folder / case.name, folder / "report.key", master, case, options.answers)
        for case in CASES
        if case.name in options.cases
    }
    alike = [max(found[case]["difference"].values()) for case in found if case not in ("loss", "half-cut")]
    return {"answers": options.answers, "cases": found, "met": max(alike, default=0.0) <= TARGET}


def tables(results: command.Results) -> command.Tables:
    table = Table("case", "policy", "largest difference", "shares by server", title="agreement of three servers")
    for name, case in results["cases"].items():
        for policy, largest in case["difference"].items():
            rows = [" ".join(f"{100 * share:.1f}" for share in found[policy].values()) for found in case["shares"]]
            table.add_row(name, policy, f"{100 * largest:.2f} %", " | ".join(rows))
    return [table]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--answers", int, 100, 1_000_000, 10_000, "answers of each server and policy")
    known = [case.name for case in CASES]
    parser.add_argument("--cases", nargs="+", choices=known, default=known, help="the cases to measure (default: all)")
