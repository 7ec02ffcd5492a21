"""Faults that involve an older version of lbdns and this version: reports, state_dir, take-overs and downgrades."""

from __future__ import annotations

import time
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.bench.dns.benchmark_farm import MEMBERS, LbdnsProgram
from lbdns_tools.faults import old_version
from lbdns_tools.faults.fault import Fault, Limits, queries
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import THIS_VERSION, FarmPlan
from lbdns_tools.faults.waiting import wait_for

RECORDED_S: Final = 8.0  # s in which the history is committed at least once
TAKEN_OVER_S: Final = 30.0


def restart(bed: FaultBed, program: LbdnsProgram) -> None:
    """Replace the server with one of another version that uses the same files."""
    bed.farm.server.stop()
    bed.farm.start_server(program=program)
    bed.awaits(bed.all_usable, "all members are usable after the restart", 15)
    bed.awaits(bed.answers, "queries are answered after the restart", 15)


def old_program(bed: FaultBed) -> LbdnsProgram:
    bed.notes["older version"] = old_version.revision()
    folder = bed.folder / "old"
    folder.mkdir()
    return old_version.extract(folder)


def old_agents(bed: FaultBed) -> None:
    agent = old_version.agent_command(old_program(bed))
    bed.begin()
    for name in MEMBERS:
        bed.farm.agents[name].stop()
        bed.farm.start_agent(name, agent)
        bed.awaits(bed.all_usable, f"{name} is usable with the older agent", 10)
    bed.ease()
    bed.keep(3.0)
    bed.recovers(bed.all_usable, "all members are usable")


def new_agents(bed: FaultBed) -> None:
    restart(bed, old_program(bed))
    bed.begin()
    bed.keep(4.0)
    bed.ease()
    bed.recovers(bed.all_usable, "all members are usable with the older server")


def change_version(bed: FaultBed, first: LbdnsProgram, second: LbdnsProgram) -> None:
    """Check that ``second``, started with the state_dir of ``first``, reads the override and the history."""
    restart(bed, first)
    began = time.time()
    bed.farm.control("weight", member="frodo", factor=0.5, reason="before the change")
    bed.keep(RECORDED_S)
    bed.begin()
    bed.farm.server.stop()
    recorded = time.time()
    bed.farm.start_server(wait=False, program=second)
    bed.recovers(bed.all_usable, "all members are usable", 20)
    bed.recovers(bed.is_healthy, "/healthz responds with 200")
    in_force = bed.farm.control("overrides")["in_force"]
    bed.expect(len(in_force) == 1, f"{len(in_force)} overrides are in force instead of 1")
    bed.awaits(lambda: bed.farm.has_history(began, recorded), "the recorded history can be read", 15)
    bed.awaits(lambda: bed.farm.has_history(recorded + 1), "the server continues to record the history", 25)


def upgrade(bed: FaultBed) -> None:
    change_version(bed, old_program(bed), THIS_VERSION)


def downgrade(bed: FaultBed) -> None:
    change_version(bed, THIS_VERSION, old_program(bed))


def take_over(bed: FaultBed, first: LbdnsProgram, second: LbdnsProgram, may_refuse: bool) -> None:
    """Let ``second`` take over from ``first`` under load. If ``second`` rejects the take-over, ``first`` must
    continue."""
    if first is not THIS_VERSION:
        restart(bed, first)
    bed.farm.control("weight", member="frodo", factor=0.5)
    before = bed.farm.server
    bed.begin()
    bed.farm.start_server("--take-over", program=second, wait=False)
    after = bed.farm.server
    ended = wait_for(lambda: not (before.running and after.running), TAKEN_OVER_S)
    bed.expect(ended is not None, f"both servers are still running after {TAKEN_OVER_S:g} s")
    refused = not after.running
    bed.notes["refused"] = after.last_line() if refused else ""
    bed.expect(may_refuse or not refused, f"the take-over was rejected: {after.last_line()}")
    if refused:
        bed.farm.server = before
    bed.ease()
    bed.recovers(bed.all_usable, "all members are usable")
    try:
        bed.expect(len(bed.farm.control("overrides")["in_force"]) == 1, "the override is lost")
    except LbdnsError as error:
        bed.expect(False, f"the control socket does not answer: {error}")


def take_over_from_old(bed: FaultBed) -> None:
    take_over(bed, old_program(bed), THIS_VERSION, may_refuse=False)


def take_over_by_old(bed: FaultBed) -> None:
    take_over(bed, THIS_VERSION, old_program(bed), may_refuse=True)


_NEEDS: Final = ("old version",)
#: The older Python code must not meet this version's native extension
_FARM: Final = FarmPlan(server='plane = "python"\n')
_RESTART: Final = Limits(queries(5), queries(3), recover_s=25)
FAULTS: Final = (
    Fault("version.old-agents", "the agents are replaced by agents running an older version, one by one",
          "all members stay usable", old_agents, Limits(), _FARM, needs=_NEEDS),
    Fault("version.new-agents", "a server running an older version receives reports from agents running this version",
          "all members are usable", new_agents, Limits(), _FARM, needs=_NEEDS),
    Fault("version.upgrade", "a server running this version starts with the state_dir of an older version",
          "the override and the history are kept", upgrade, _RESTART, _FARM, needs=_NEEDS),
    Fault("version.downgrade", "a server running an older version starts with the state_dir of this version",
          "the override and the history are kept", downgrade, _RESTART, _FARM, needs=_NEEDS),
    Fault("version.take-over", "a server running this version takes over from one running an older version",
          "no query is lost; the override is kept", take_over_from_old, Limits(recover_s=10), _FARM, quick=True,
          needs=_NEEDS),
    Fault("version.take-over-back", "a server running an older version takes over from one running this version",
          "no query is lost; the override is kept, or the take-over is rejected", take_over_by_old,
          Limits(recover_s=10), _FARM, needs=_NEEDS),
)  # fmt: skip
