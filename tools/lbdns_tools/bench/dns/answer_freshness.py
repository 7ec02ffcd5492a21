"""Measures freshness: the time from sending an agent's report to the first answer that reflects it.

Each report makes its sender the best member, so the first answer that names the sender is the first to reflect that
report. After each report, the benchmark sends one query at a time until an answer names the sender. The benchmark sends
no other queries.
"""

from __future__ import annotations

import argparse
import math
import random
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_shared.keys import MasterKey
from lbdns_shared.report import Report, encode
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import (
    ZONE_HEAD,
    address_records,
    configuration,
    loopback_address,
    pool_table,
    write_key,
)
from lbdns_tools.bench.dns.latency_prober import await_answer, query_wire
from lbdns_tools.bench.measured_processes import running
from lbdns_tools.free_ports import free_port
from lbdns_tools.percentiles import percentile

TAKES: Final = "about 25 s (--reports x --interval / --agents)"
EXAMPLE: Final = "--agents 3 --reports 300"
START: Final = 120.0  # s that the server may take until its first answer
LIMIT: Final = 2.0  # s after which a report that no answer reflects counts as lost
TARGET: Final = 10.0  # ms, the 99th percentile with three agents
QUERY: Final = query_wire("best.bench", edns=False)
TARGET_TEXT: Final = f"p99 at most {TARGET:g} ms"


@dataclass(frozen=True, slots=True)
class WatchedMembers:
    """The members that ``best.bench`` selects by score, with their IPv4 addresses, and the DNS server to ask."""

    port: int
    members: Mapping[str, str]
    key: MasterKey


class FreshnessFarm:
    """The files and ports of the farm that the freshness benchmarks use.

    The pool's owner name ``best`` uses the policy ``best_score``, so each report affects the answers immediately.
    """

    def __init__(self, folder: Path, agents: int, plane: str = "auto") -> None:
        self.port, self.report_port = free_port(), free_port()
        members = {f"web{number}": loopback_address(number) for number in range(agents)}
        self.watched = WatchedMembers(self.port, members, write_key(folder))
        (folder / "bench.zone").write_text(ZONE_HEAD + address_records(members))
        config = folder / "lbdns.toml"
        config.write_text(
            configuration(f"127.0.0.1:{self.port}", self.report_port, "bench", plane)
            + pool_table("web", "bench", members, 'best = "best_score"')
        )
        self.command = [sys.executable, "-m", "lbdns", "serve", "-c", str(config), "--log-level", "error"]

    def send_and_watch(self, reports: int, interval: float) -> list[float]:
        """Send reports over UDP, and return the delay of each report in ms, as ``send_and_watch`` does."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", self.report_port))
            return send_and_watch(self.watched, lambda _, datagram: sock.send(datagram), reports, interval)


def send_and_watch(
    watched: WatchedMembers,
    send: Callable[[str, bytes], object],
    reports: int,
    interval: float,
    longest: float = math.inf,
) -> list[float]:
    """Send the members' reports in turn, and return the delay of each report in ms.

    The delay is the time from sending a report to the first answer that reflects it, or inf if none does. ``send``
    receives a host and its report. After ``longest`` seconds, no report but the first is sent.
    """
    begin, times = time.monotonic(), list[float]()
    addresses = {host: socket.inet_aton(address) for host, address in watched.members.items()}
    hosts = list(addresses)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", watched.port))
        client.settimeout(0.2)
        for number in range(reports):
            host = hosts[number % len(hosts)]
            # Agents are spread over the interval, a little unevenly
            due = begin + (number + random.random() / 2) * interval / len(hosts)
            time.sleep(max(0.0, due - time.monotonic()))
            if times and time.monotonic() - begin > longest:
                break
            report = Report(host, 1, number + 1, time.time(), interval, {"requests_per_s": float(number + 1)})
            datagram = encode(report, watched.key.agent_key(host))
            sent = time.perf_counter()
            send(host, datagram)
            answered = False
            while not answered and time.perf_counter() - sent <= LIMIT:
                answered = _best_member(client) == addresses[host]
            times.append((time.perf_counter() - sent) * 1000 if answered else math.inf)
    return times


def _best_member(client: socket.socket) -> bytes:
    """Send a query, and return the address in the answer (4 bytes), or b"" if the query or the answer is lost."""
    query = random.randbytes(2) + QUERY[2:]
    client.send(query)
    try:
        while (answer := client.recv(512))[:2] != query[:2]:
            pass
    except TimeoutError:
        return b""
    return answer[-4:]


def freshness_figures(times: Sequence[float], target: float) -> command.Results:
    """Return percentiles of ``times`` in milliseconds, and whether the 99th percentile meets ``target``."""
    figures = {f"p{percent}_ms": round(percentile(times, percent), 3) for percent in (50, 95, 99, 100)}
    return {**figures, "lost": sum(map(math.isinf, times)), "met": figures["p99_ms"] <= target}


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    farm = FreshnessFarm(folder, options.agents)
    with running("lbdns", farm.command, None, folder / "log"):
        await_answer(farm.port, QUERY, START)
        times = farm.send_and_watch(options.reports, options.interval)
    return {"agents": options.agents, **freshness_figures(times, TARGET)}


def tables(results: command.Results) -> command.Tables:
    return [command.figures("time from report to answer", results)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--agents", int, 1, 10_000, 3, "number of agents")
    command.add_number(parser, "--reports", int, 1, 100_000, 300, "total number of reports from all agents")
    command.add_number(parser, "--interval", float, 0.01, 60, 0.2, "seconds between two reports from the same agent")
