"""Runs the farm of the benchmark ``scale``: collectors, DNS servers that follow them, and a NATS server if needed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns.client.http_client import HttpLocation
from lbdns_tools.bench.collector_counts import ReportCounts, await_steady, read_counts
from lbdns_tools.bench.dns.answer_freshness import QUERY, WatchedMembers
from lbdns_tools.bench.dns.benchmark_farm import ZONE_HEAD, address_records, loopback_address, pool_table, write_key
from lbdns_tools.bench.dns.latency_prober import await_answer
from lbdns_tools.bench.measured_processes import MeasuredProcess, need, running
from lbdns_tools.bench.report_transports import ReportTarget, collector_of
from lbdns_tools.bench.simulated_agents import agent_name
from lbdns_tools.free_ports import free_ports

POOL: Final = 200  # members per pool
PROBED: Final = ("web0", "web1")  # the members whose reports change an answer
START: Final = 180.0  # seconds a program may take to read its zone; 100,000 members take long


@dataclass(frozen=True, slots=True)
class ScaleCase:
    """The size of a farm. ``by_bus`` says whether agents publish their reports on a bus, or send them over UDP.
    ``history`` says whether the programs record a history."""

    agents: int
    collectors: int
    servers: int
    by_bus: bool
    history: bool = True

    @property
    def label(self) -> str:
        plural = "" if self.collectors == 1 else "s"
        return f"{self.agents} agents, {self.collectors} collector{plural}, {'bus' if self.by_bus else 'UDP'}"

    @property
    def has_bus(self) -> bool:
        """Whether a NATS server runs. Servers follow several collectors over a bus, and a single one over HTTP."""
        return self.by_bus or self.collectors > 1

    @property
    def copies(self) -> int:
        """The number of collectors that receive each report."""
        return self.collectors if self.by_bus else 1

    def reporting_to(self, collector: int) -> int:
        """Return the number of agents whose reports a collector receives."""
        if self.by_bus:
            return self.agents
        return sum(collector_of(agent_name(agent), self.collectors) == collector for agent in range(self.agents))


@dataclass(frozen=True, slots=True)
class _Program:
    """The files and ports of a collector or of a DNS server."""

    config: Path
    port: int  # for reports or for queries
    web: HttpLocation


class ManyAgentsFarm:
    """A context manager that runs the farm's programs, each in a process of its own."""

    def __init__(self, folder: Path, case: ScaleCase) -> None:
        """Write the files. ``folder`` is created."""
        folder.mkdir()
        self.case, self._folder = case, folder
        self.key = write_key(folder)
        agents = [agent_name(agent) for agent in range(case.agents)]
        addresses = {member: loopback_address(number) for number, member in enumerate((*PROBED, *agents))}
        (folder / "bench.zone").write_text(ZONE_HEAD + address_records(addresses))
        self._bus_port = free_ports(1)[0] if case.has_bus else 0
        self._members = _farm_text(folder, agents)
        self._collectors = [self._write_collector(number) for number in range(case.collectors)]
        self._servers = [self._write_server(number) for number in range(case.servers)]
        self.target = ReportTarget([each.port for each in self._collectors], self._bus_port if case.by_bus else 0)
        #: The members whose reports change the answers of the first server
        self.watched = WatchedMembers(self._servers[0].port, {name: addresses[name] for name in PROBED}, self.key)
        self.parts: list[MeasuredProcess] = []  # all programs that run
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ManyAgentsFarm:
        """Start the programs, and wait until they are ready. Raises BenchmarkError."""
        with self._stack:
            if self._bus_port:
                line = [need("nats-server", "nats-server"), "-a", "127.0.0.1", "-p", str(self._bus_port)]
                self._start("nats-server", line, "Server is ready")
            self._start_all("lbdns_collector", [], self._collectors)
            self._start_all("lbdns", ["serve"], self._servers)
            await_answer(self.watched.port, QUERY, START)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def await_steady(self) -> None:
        """Wait until all members have reported to all programs, and this has been announced. Raises BenchmarkError."""
        for number, collector in enumerate(self._collectors):
            await_steady(collector.web, self.case.reporting_to(number))
        for server in self._servers:
            await_steady(server.web, self.case.agents)

    def counts(self) -> ReportCounts:
        """Return the counts of all collectors together. Raises LbdnsError."""
        found = [read_counts(collector.web) for collector in self._collectors]
        reasons = {reason for counts in found for reason in counts.dropped}
        dropped = {reason: sum(counts.dropped.get(reason, 0) for counts in found) for reason in reasons}
        return ReportCounts(sum(each.accepted for each in found), dropped, sum(each.overflows for each in found))

    def _start_all(self, module: str, command: Sequence[str], programs: Sequence[_Program]) -> None:
        for program in programs:
            line = [sys.executable, "-m", module, *command, "-c", str(program.config), "--log-format", "json"]
            self._start(program.config.parent.name, line, '"ready')

    def _start(self, name: str, line: Sequence[str], ready: str) -> None:
        process = self._stack.enter_context(running(name, line, None, self._folder / f"{name}.log"))
        process.await_log(ready, START, "that it is ready")
        self.parts.append(process)

    def _write_collector(self, number: int) -> _Program:
        port, web = free_ports(2)
        text = f'[server]\nstate_dir = "state"\n[collector]\nlisten = ["127.0.0.1:{port}"]\n{self._key_line()}'
        return self._write(f"collector {number + 1}", text, port, web)

    def _write_server(self, number: int) -> _Program:
        port, web = free_ports(2)
        text = f'[server]\nlisten = ["127.0.0.1:{port}"]\nstate_dir = "state"\ncontrol = "control.sock"\n[collector]\n'
        if self.case.has_bus:
            text += f'connect = "bus"\n{self._key_line()}'
        else:
            text += f'connect = "{self._collectors[0].web.base}"\n'
        return self._write(f"server {number + 1}", text, port, web)

    def _write(self, name: str, text: str, port: int, web: int) -> _Program:
        bus = f'[bus]\nurl = ["nats://127.0.0.1:{self._bus_port}"]\n' if self._bus_port else ""
        history = "" if self.case.history else "[history]\non = false\n"
        config = self._folder / name / "lbdns.toml"
        config.parent.mkdir()
        config.write_text(f'{text}[web]\nlisten = "127.0.0.1:{web}"\n{bus}{history}{self._members}')
        return _Program(config, port, HttpLocation(f"http://127.0.0.1:{web}"))

    def _key_line(self) -> str:
        return f'key_file = "{self._folder / "report.key"}"\n'


def _farm_text(folder: Path, agents: Sequence[str]) -> str:
    """Return the zone and the pools, which all programs share."""
    pools = [pool_table("web", "bench", PROBED, 'best = "best_score"')]
    for number, start in enumerate(range(0, len(agents), POOL)):
        pools.append(pool_table(f"p{number}", "bench", agents[start : start + POOL], f'best{number} = "best"'))
    return f'[[zone]]\nname = "bench"\nfile = "{folder / "bench.zone"}"\n{"".join(pools)}'
