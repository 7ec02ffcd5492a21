"""Members that have a valid key but send absurd reports; each kind of absurd report has a separate pool."""

from __future__ import annotations

import signal
import time
from statistics import fmean
from typing import Final

from lbdns_tools.bench.dns.benchmark_farm import loopback_address, pool_table
from lbdns_tools.faults.fault import RATE, Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan
from lbdns_tools.faults.query_records import shares
from lbdns_tools.faults.stand_in_agents import CORES, Lie, Metrics, StandInAgent, StandInAgents

MEMBERS_EACH: Final = 3  # of a pool; the last one lies
LOAD: Final = 0.6  # share of the pool's CPU time that the requests use
MOST_MOVED: Final = 0.1  # by which the capacity of an honest member may change
MOST_SHARE: Final = 1.5  # times the share of an honest idle member
NOISE: Final = 0.05  # by which shares and capacities of honest pools differ from run to run
SILENT_AFTER_S: Final = 8.0  # s after its last report, with max_interval = 2 and 3 intervals
VICTIM: Final = "frodo"


def _changed(**changes: float) -> Lie:
    return lambda metrics, _: ({**metrics, **changes}, 1.0)


def _raised(name: str, each: float, once: float = 0.0) -> Lie:
    return lambda metrics, number: ({**metrics, name: metrics[name] + each * (number + 1) + once}, 1.0)


def _idle_while_requests_rise(metrics: Metrics, number: int) -> tuple[Metrics, float]:
    risen, interval = _raised("requests_total", 1e9)(metrics, number)
    return {**risen, "busy_workers": 0.0, "cpu_idle": 100.0}, interval


IDLE: Final = "idle"
HONEST: Final = "honest"
LIES: Final[dict[str, Lie]] = {
    IDLE: _changed(busy_workers=0.0, cpu_idle=100.0, requests_per_s=0.0, run_queue=0.0),
    "requests-rise": _raised("requests_total", 1e9),
    "requests-jump": _raised("requests_total", 0.0, 1e12),
    "cpu-time-rises": _raised("httpd_cpu_seconds", 1e6),
    "idle-and-requests": _idle_while_requests_rise,
    "load": _changed(busy_workers=1e15, run_queue=1e15),
    "rate": _changed(requests_per_s=1e15),
    "cores": _changed(cpu_count=1e6),
    "interval": lambda metrics, _: (metrics, 86_400.0),
}
POOLS: Final = (HONEST, *LIES, "new-boot")
HOSTS: Final = {
    f"{pool}-{number}": loopback_address(500_000 + 10 * at + number)
    for at, pool in enumerate(POOLS)
    for number in range(MEMBERS_EACH)
}


def _members(pool: str) -> list[str]:
    return [f"{pool}-{number}" for number in range(MEMBERS_EACH)]


FARM: Final = FarmPlan(
    agents=(),
    hosts=HOSTS,
    queried=tuple(f"{pool}.hobbit" for pool in POOLS),
    zone="".join(f"{host} A {address}\n" for host, address in HOSTS.items()),
    tables="".join(pool_table(pool, "hobbit", _members(pool), f'"{pool}" = "best"') for pool in POOLS),
)


def _new_boot(agent: StandInAgent) -> None:
    """Restart an agent with a request counter that is already very high."""
    agent.boot += 1
    agent.seq = 0
    agent.lie = _raised("requests_total", 0.0, 1e12)


def _capacities(bed: FaultBed) -> dict[str, float]:
    return {
        member["name"]: member["capacity"] or 0.0 for pool in bed.farm.status()["pools"] for member in pool["members"]
    }


class PoolWatch:
    """Records the members' capacities, and computes mean capacities and shares of answers."""

    def __init__(self, bed: FaultBed) -> None:
        self._bed = bed
        self._seen: list[tuple[float, dict[str, float]]] = []

    def keep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._seen.append((time.monotonic(), _capacities(self._bed)))
            self._bed.keep(1.0)

    def capacity(self, host: str, begin: float, end: float) -> float:
        found = [capacities.get(host, 0.0) for at, capacities in self._seen if begin <= at < end]
        return fmean(found) if found else 0.0

    def share(self, pool: str, number: int, begin: float, end: float) -> float:
        first = list(HOSTS).index(f"{pool}-0")
        records = [r for r in self._bed.load.between(begin, end) if first <= r.member < first + MEMBERS_EACH]
        return shares((r._replace(member=r.member - first) for r in records), MEMBERS_EACH)[number]


def all_lies(bed: FaultBed) -> None:
    cost_s = LOAD * CORES * MEMBERS_EACH * len(POOLS) / RATE
    period = 14.0 if bed.quick else 40.0
    agents = StandInAgents(bed.farm.report_port, bed.farm.keys[0], bed.load, tuple(HOSTS), cost_s, bed.chance)
    with agents:
        watch = PoolWatch(bed)
        watch.keep(period)
        began = bed.begin()
        for pool, lie in LIES.items():
            agents.agents[f"{pool}-{MEMBERS_EACH - 1}"].lie = lie
        _new_boot(agents.agents[f"new-boot-{MEMBERS_EACH - 1}"])
        watch.keep(period)
        ended = bed.ease()
        for agent in agents.agents.values():
            agent.lie = None
        _judge_lies(bed, watch, (began - period / 2, began), (ended - period / 2, ended))
        if not bed.quick:
            watch.keep(30.0)
            since = time.monotonic()
            watch.keep(15.0)
            _judge_return(bed, watch, (since, time.monotonic()))


def _judge_lies(bed: FaultBed, watch: PoolWatch, before: tuple[float, float], lying: tuple[float, float]) -> None:
    liar = MEMBERS_EACH - 1
    most = MOST_SHARE * watch.share(IDLE, liar, *lying) + NOISE
    for pool in (*LIES, "new-boot"):
        share = watch.share(pool, liar, *lying)
        bed.notes[f"share of {pool}"] = round(share, 3)
        bed.expect(
            share <= most,
            f"{pool}: the misreporting member receives {share:.0%} of the answers; the limit is {most:.0%}",
        )
        for other in _members(pool)[:liar]:
            was, now = watch.capacity(other, *before), watch.capacity(other, *lying)
            moved = abs(now / was - 1) if was else 0.0
            bed.notes[f"capacity of {other} moved"] = round(moved, 3)
            bed.expect(was > 0, f"{pool}: the capacity of {other} is unknown")
            bed.expect(moved <= MOST_MOVED + NOISE, f"{pool}: the capacity of {other} changed by {moved:.0%}")


def _judge_return(bed: FaultBed, watch: PoolWatch, after: tuple[float, float]) -> None:
    liar = MEMBERS_EACH - 1
    for pool in (*LIES, "new-boot"):
        share = watch.share(pool, liar, *after)
        bed.notes[f"share of {pool} afterwards"] = round(share, 3)
        off = abs(share * MEMBERS_EACH - 1)
        bed.expect(
            off <= MOST_MOVED + 3 * NOISE,
            f"{pool}: 30 s after its last false report, the member's share is {share:.0%}, not 33 %",
        )


def long_interval(bed: FaultBed) -> None:
    """Check that a member becomes silent in time even if its last report states a report interval of one day."""
    bed.farm.agents[VICTIM].stop(signal.SIGKILL)
    with StandInAgents(bed.farm.report_port, bed.farm.keys[0], bed.load, (VICTIM,), 0.01, bed.chance) as agents:
        agents.agents[VICTIM].boot = 2**63
        agents.agents[VICTIM].lie = lambda metrics, _: (metrics, 86_400.0)
        bed.keep(2.5)
    begin = bed.begin()
    bed.farm.agents["bilbo"].stop(signal.SIGKILL)
    bed.awaits(bed.state_is("bilbo", "silent"), "bilbo is silent after its agent was killed", 6)
    bed.awaits(bed.state_is(VICTIM, "silent"), f"{VICTIM} is silent", SILENT_AFTER_S)
    bed.keep(2.0)
    bed.expect(not bed.farm.status()["pools"][0]["fail_open"] or len(bed.farm.usable()) < 2, "the pool fails open")
    bed.ease()
    bed.notes["fails open"] = bed.fails_open()
    bed.notes["since"] = round(time.monotonic() - begin, 1)
    for name in (VICTIM, "bilbo"):
        bed.farm.start_agent(name)
    bed.recovers(bed.all_usable, "all members are usable", 15)


FAULTS: Final = (
    Fault("liar.absurd", f"in each of {len(LIES) + 1} pools, one member sends a different kind of absurd report",
          "other members' capacities change by at most 10 %; the misreporting member receives at most 1.5 times an "
          "idle member's share; 30 s after its last absurd report, it receives an equal share", all_lies,
          Limits(recover_s=60, log_lines=120), FARM, quick=True),
    Fault("liar.interval", "a member reports an interval of one day and sends no more reports (max_interval = 2)",
          "the member becomes silent within 8 s; a member whose agent is killed becomes silent as usual", long_interval,
          Limits(recover_s=15), FarmPlan(collector="max_interval = 2\n")),
)  # fmt: skip
