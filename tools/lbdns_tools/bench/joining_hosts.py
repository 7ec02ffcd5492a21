"""Measures what happens when many hosts join a pool at once: lost queries, the slowest answer, and the time until
answers name the new members.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_shared.keys import MasterKey, new_master_key
from lbdns_shared.report import Report, encode
from lbdns_tools.bench import benchmark_command as command
from lbdns_tools.bench.dns.benchmark_farm import ZONE_HEAD, address_records, pool_table
from lbdns_tools.bench.dns.latency_prober import await_answer, query_wire
from lbdns_tools.bench.dns.queries_during_restart import START
from lbdns_tools.bench.dns.windowed_load import QUERY, WindowedLoad
from lbdns_tools.free_ports import free_ports

TAKES: Final = "about 10 s"
EXAMPLE: Final = "--hosts 1000 --rate 2000"
BEFORE: Final = 0.5  # seconds of queries before the first report
PATIENCE: Final = 60.0  # seconds until all hosts have joined
TARGET_TEXT: Final = "no query lost"
METRICS: Final = {"run_queue": 1.0, "cpu_idle": 90.0, "cpu_count": 2.0, "requests_per_s": 5.0}


def address_of(number: int) -> str:
    """Return the loopback address of a host."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def write_farm(folder: Path, key: MasterKey, ports: Sequence[int], hosts: int) -> Path:
    """Write the files of a server with a pool that up to ``hosts`` hosts may join, and return the configuration's
    path."""
    dns_port, report_port = ports
    (folder / "bench.zone").write_text(ZONE_HEAD + address_records(("web1", "web2")))
    (folder / "report.key").write_text(key.line() + "\n")
    (folder / "report.key").chmod(0o600)
    path = folder / "lbdns.toml"
    path.write_text(
        f'[server]\nlisten = ["127.0.0.1:{dns_port}"]\ncontrol = "control.sock"\nstate_dir = "state"\n'
        f'[collector]\nlisten = ["127.0.0.1:{report_port}"]\nkey_file = "report.key"\n[web]\nlisten = "off"\n'
        "[rate_limit]\nresponses_per_second = 0\n"
        '[[zone]]\nname = "bench"\nfile = "bench.zone"\n'
        + pool_table("web", "bench", ("web1", "web2"))
        + f'join = {{ names = "host-*", networks = ["127.1.0.0/16"], max = {hosts} }}\n'
    )
    return path


class JoiningHosts:
    """Simulates hosts that join a pool: opens a socket for each host, and sends the hosts' reports. The caller must
    call ``close``."""

    def __init__(self, key: MasterKey, hosts: int, report_port: int) -> None:
        self._target = ("127.0.0.1", report_port)
        self._stack = ExitStack()
        self._sockets: list[socket.socket] = []
        for number in range(hosts):
            sock = self._stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.bind((address_of(number), 0))
            self._sockets.append(sock)
        self._keys = [key.agent_key(f"host-{number}") for number in range(hosts)]
        self._seq = 0

    def report(self) -> None:
        """Send one report from every host, all at once."""
        self._seq += 1
        now = time.time()
        datagrams = [encode(Report(key.host, 1, self._seq, now, 1.0, METRICS), key) for key in self._keys]
        for sock, datagram in zip(self._sockets, datagrams, strict=True):
            sock.sendto(datagram, self._target)

    def close(self) -> None:
        self._stack.close()


def count_members(port: int, hosts: int, since: float) -> tuple[float, float]:
    """Return the times in seconds after ``since`` at which the first and the last host have an address in the zone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2.0)
        sock.connect(("127.0.0.1", port))
        waiting, first = set(range(hosts)), 0.0
        while waiting:
            number = next(iter(waiting))
            sock.send(query_wire(f"host-{number}.bench", edns=False))
            if sock.recv(512)[3] & 15 == 0:
                first = first or time.monotonic() - since
                waiting.discard(number)
            elif time.monotonic() - since > PATIENCE:
                raise LbdnsError(f"{len(waiting)} of {hosts} hosts have not joined after {PATIENCE:g} s")
            else:
                time.sleep(0.001)
        return first, time.monotonic() - since


def measure(options: argparse.Namespace, folder: Path) -> command.Results:
    key, ports = new_master_key(), free_ports(2)
    config = write_farm(folder, key, ports, options.hosts)
    with ExitStack() as stack:
        program = [sys.executable, "-m", "lbdns", "serve", "-c", str(config), "--log-level", "error"]
        server = subprocess.Popen([*program, "--workers", str(options.workers)])
        stack.callback(server.wait, START)
        stack.callback(server.terminate)
        await_answer(ports[0], QUERY, START)
        hosts = JoiningHosts(key, options.hosts, ports[1])
        stack.callback(hosts.close)
        load = WindowedLoad(ports[0], 1, options.rate)
        load.goes_on.set()
        doer = stack.enter_context(ThreadPoolExecutor(1))
        running = doer.submit(load.run)
        try:
            time.sleep(BEFORE)
            began = time.monotonic()
            hosts.report()
            sent = time.monotonic() - began
            first, last = count_members(ports[0], options.hosts, began)
        finally:
            load.goes_on.clear()
            tally = running.result()
    return {
        "hosts": options.hosts, "sending_s": round(sent, 3), "first_s": round(first, 3), "all_s": round(last, 3),
        "sent": tally.sent, "answered": tally.answered, "lost": tally.lost, "unexpected": tally.unexpected,
        "longest_ms": round(tally.longest * 1000, 1), "met": tally.lost == 0 and tally.unexpected == 0,
    }  # fmt: skip


def tables(results: command.Results) -> command.Tables:
    return [command.figures("joining hosts", results)]


def add_options(parser: argparse.ArgumentParser) -> None:
    command.add_number(parser, "--hosts", int, 1, 10_000, 1000, "number of hosts that join at once")
    command.add_number(parser, "--rate", float, 1, 10**6, 2000, "queries/s during the joins")
    command.add_number(parser, "--workers", int, 1, 64, 2, "number of workers that the server runs")
