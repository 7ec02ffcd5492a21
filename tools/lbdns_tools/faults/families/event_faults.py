"""Many events at once: a thousand members that become silent and return at the same time."""

from __future__ import annotations

import json
from typing import Final

from lbdns_tools.bench.dns.benchmark_farm import loopback_address, pool_table
from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan
from lbdns_tools.faults.stand_in_agents import StandInAgents

COUNT: Final = 1000
HOSTS: Final = {f"host{number}": loopback_address(600_000 + number) for number in range(COUNT)}
SILENT_S: Final = 15.0  # s within which all of them must be silent, or usable again
LOOK_S: Final = 0.5  # s between two looks at the status of so many members
LISTED: Final = 1000  # events that /api/v1/log returns at most
FARM: Final = FarmPlan(
    agents=(),
    hosts=HOSTS,
    queried=("many.hobbit",),
    zone="".join(f"{host} A {address}\n" for host, address in HOSTS.items()),
    tables=pool_table("many", "hobbit", HOSTS, 'many = "round_robin"'),
)


def _silent(bed: FaultBed) -> int:
    return sum(member["state"] == "silent" for member in bed.farm.members(1).values())


def _usable(bed: FaultBed) -> int:
    return sum(member["state"] == "usable" for member in bed.farm.members(1).values())


def _reporting(bed: FaultBed) -> StandInAgents:
    return StandInAgents(bed.farm.report_port, bed.farm.keys[0], bed.load, tuple(HOSTS), 0.001, bed.chance)


def thousand_silent(bed: FaultBed) -> None:
    with _reporting(bed):
        bed.awaits(lambda: _usable(bed) == COUNT, f"{COUNT} members are usable", SILENT_S, LOOK_S)
    bed.begin()
    bed.awaits(lambda: _silent(bed) == COUNT, f"{COUNT} members are silent", SILENT_S, LOOK_S)
    bed.ease()
    with _reporting(bed):
        bed.recovers(lambda: _usable(bed) == COUNT, f"{COUNT} members are usable again", SILENT_S, LOOK_S)
        bed.awaits(lambda: _events(bed) >= LISTED, "the history contains the members' state changes", 15, LOOK_S)
        history = bed.farm.status()["server"]["history"]
        bed.expect(
            history["ok"] and history["dropped"] == 0,
            f"the history must not lose records, but lost {history['dropped']}: {history}",
        )


def _events(bed: FaultBed) -> int:
    status, text = bed.farm.get(f"/api/v1/log?kind=state&limit={LISTED}", 10)
    return len(json.loads(text)["events"]) if status == 200 else 0


FAULTS: Final = (
    Fault("event.thousand-silent", f"{COUNT} members become silent together and later return together",
          "no query is lost; every event is in the history", thousand_silent,
          Limits(recover_s=15, growth_mb=60, log_lines=900), FARM),
)  # fmt: skip
