"""A real server with simulated agents, which a caller puts into one of the states that the screenshots show."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.dns.benchmark_farm import MEMBERS, address_records, loopback_address
from lbdns_tools.faults.fault_farm import FarmPlan, FaultFarm
from lbdns_tools.faults.query_load import QueryLoad
from lbdns_tools.faults.stand_in_agents import CORES, INTERVAL, Metrics, StandInAgents
from lbdns_tools.faults.waiting import wait_for

STATES: Final[Mapping[str, str]] = {
    "rest": "no queries",
    "loaded": "queries keep the members half busy",
    "full": "every worker of a tenth of the members' web servers is busy",
    "drained": "an operator has drained a tenth of the members",
    "dead": "the agents of a tenth of the members have stopped",
    "failing-open": "all agents have stopped",
}
QUERIED: Final = ("best.hobbit", "weighted.hobbit", "round.robin.hobbit")
BUSY: Final = 0.5  # the share of the members' CPU time that the requests use
REASON: Final = "kernel update"  # of the drains
STATUS_S: Final = 30.0  # s that the status of 1,000 members may take
REACH_S: Final = 120.0  # s that a farm of 1,000 members may take to reach a state on a busy machine


def member_names(count: int) -> tuple[str, ...]:
    """Return the names of ``count`` members: the names from zone hobbit for three, otherwise web001, web002 ..."""
    return tuple(MEMBERS) if count == len(MEMBERS) else tuple(f"web{number:03}" for number in range(1, count + 1))


def affected(names: Sequence[str]) -> tuple[str, ...]:
    """Return the members that are full, drained or dead in a state: a tenth of all members, but at least one."""
    return tuple(names[::10])


def query_rate(count: int) -> float:
    """Return the rate of the load for ``count`` members, in queries/s."""
    return min(600.0, 20.0 * count)


def is_reached(state: str, pool: Mapping[str, Any]) -> bool:
    """Return whether a pool in the status document is in ``state``, one of the STATES."""
    counts = Counter(member["state"] for member in pool["members"])
    total = len(pool["members"])
    few = len(affected(pool["members"]))
    expected = {"drained": {"drained": few}, "dead": {"silent": few}, "failing-open": {"silent": total}}.get(state, {})
    well = total - sum(expected.values())
    if state == "full" and sum(member["metrics"].get("idle_workers") == 0 for member in pool["members"]) != few:
        return False
    return counts == Counter(expected | ({"usable": well} if well else {})) and pool["fail_open"] == (not well)


def _all_workers_busy(metrics: Metrics, _: int) -> tuple[Metrics, float]:
    return metrics | {"busy_workers": 20.0, "idle_workers": 0.0}, INTERVAL


@dataclass(frozen=True, slots=True)
class PicturedFarm:
    """The parts of a running farm."""

    farm: FaultFarm
    load: QueryLoad
    agents: StandInAgents
    names: Sequence[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.farm.http_port}/"

    def enter(self, state: str) -> None:
        """Wait until all members are usable, and then put the farm into ``state``, one of the STATES. Raises LbdnsError
        on failure."""
        self._await("rest")
        if state != "rest":
            self.load.start()
        if state == "drained":
            for name in affected(self.names):
                self.farm.control("drain", member=name, reason=REASON)
        elif state == "full":
            for name in affected(self.names):
                self.agents.agents[name].lie = _all_workers_busy
        elif state in ("dead", "failing-open"):
            self.agents.silent.update(affected(self.names) if state == "dead" else self.names)
        self._await(state)

    def _await(self, state: str) -> None:
        def reached() -> bool:
            status, text = self.farm.get("/api/v1/status", STATUS_S)
            return status == 200 and is_reached(state, json.loads(text)["pools"][0])

        if wait_for(reached, REACH_S, step=0.5) is None:
            raise LbdnsError(f"the farm did not reach the state {state!r} within {REACH_S:g} s")


@contextlib.contextmanager
def running_farm(folder: Path, count: int) -> Iterator[PicturedFarm]:
    """Run a server and the simulated agents of ``count`` members for the duration of a with statement.

    The load begins when the farm enters a state other than "rest". Raises LbdnsError.
    """
    names = member_names(count)
    hosts = MEMBERS if count == len(MEMBERS) else {name: loopback_address(at) for at, name in enumerate(names)}
    zone = "" if hosts is MEMBERS else address_records(names)
    rate = query_rate(count)
    with FaultFarm(folder, FarmPlan(workers=1, members=names, agents=(), hosts=hosts, zone=zone)) as farm:
        farm.start()
        load = QueryLoad(farm.port, rate, QUERIED, [hosts[name] for name in names])
        cost_s = BUSY * CORES * count / rate
        with StandInAgents(farm.report_port, farm.keys[0], load, names, cost_s, Random(1)) as agents:
            try:
                yield PicturedFarm(farm, load, agents, names)
            finally:
                load.stop()
