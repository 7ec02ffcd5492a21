"""Simulated agents: each reports the load that its member would have if real clients sent the measuring queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from socket import AF_INET, SOCK_DGRAM, socket
from typing import Final, Self

from lbdns_shared.keys import MasterKey
from lbdns_shared.report import Report, encode
from lbdns_tools.faults.query_load import QueryLoad

INTERVAL: Final = 1.0  # s between two reports of a member
CORES: Final = 2.0

Metrics = dict[str, float]
#: (true metrics, number of the report since the lie began) -> the metrics and the interval that are reported
Lie = Callable[[Metrics, int], tuple[Metrics, float]]


class StandInAgent:
    """The simulated web server and agent of one member.

    Each answer that names the member causes a request that needs ``cost_s`` seconds of CPU time on average.
    """

    def __init__(self, host: str, cost_s: float, chance: Random) -> None:
        self.host, self._cost_s, self._chance = host, cost_s, chance
        self.boot, self.seq = chance.getrandbits(60), 0
        self.lie: Lie | None = None
        self._lied = 0  # reports since the lie began
        self._requests = 1000.0 * chance.random()
        self._cpu_s = 0.0
        self._backlog_s = 0.0  # CPU time of requests that have arrived but are not finished

    def serve(self, arrived: int, seconds: float) -> Metrics:
        """Return the true metrics after a period of ``seconds`` in which ``arrived`` requests arrived."""
        self._backlog_s += sum(self._chance.expovariate(1 / self._cost_s) for _ in range(arrived))
        used_s = min(self._backlog_s, CORES * seconds)
        self._backlog_s -= used_s
        served = used_s / self._cost_s
        self._requests += served
        self._cpu_s += used_s
        busy = min(0.98, used_s / (CORES * seconds))
        return {
            "requests_total": self._requests, "httpd_cpu_seconds": self._cpu_s, "cpu_count": CORES, "run_queue": 0.0,
            "busy_workers": float(round(CORES * busy / (1 - busy))), "idle_workers": 20.0, "cpu_idle": 100 * (1 - busy),
            "requests_per_s": served / seconds,
        }  # fmt: skip

    def report(self, metrics: Metrics) -> Report:
        """Return the next report, with false values if ``lie`` is set."""
        interval = INTERVAL
        if self.lie:
            metrics, interval = self.lie(dict(metrics), self._lied)
            self._lied += 1
        self.seq += 1
        return Report(self.host, self.boot, self.seq, time.time(), interval, metrics)


class StandInAgents:
    """Sends all members' reports for the duration of a with statement. ``agents`` maps hosts to simulated agents.

    Hosts in ``silent`` send no reports. Callers may add and remove hosts.
    """

    def __init__(
        self, port: int, key: MasterKey, load: QueryLoad, hosts: Sequence[str], cost_s: float, chance: Random
    ) -> None:
        """``hosts`` must be in the order of the members' positions in the load's records."""
        self.agents: Mapping[str, StandInAgent] = {host: StandInAgent(host, cost_s, chance) for host in hosts}
        self.silent: set[str] = set()
        self._keys = {host: key.agent_key(host) for host in hosts}
        self._port, self._load = port, load
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stand-in-agents", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        read, last = 0, time.monotonic()
        with socket(AF_INET, SOCK_DGRAM) as sock:
            while not self._over.wait(INTERVAL):
                now = time.monotonic()
                fresh = self._load.records[read:]
                read += len(fresh)
                arrived = [0] * (len(self.agents) + 1)
                for record in fresh:
                    arrived[min(record.member, len(self.agents))] += 1
                for number, (host, agent) in enumerate(self.agents.items()):
                    metrics = agent.serve(arrived[number], now - last)
                    if host in self.silent:
                        continue
                    report = agent.report(metrics)
                    sock.sendto(encode(report, self._keys[host]), ("127.0.0.1", self._port))
                last = now
