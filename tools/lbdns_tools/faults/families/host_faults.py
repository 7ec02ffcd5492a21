"""Faults in agents and web servers on the members' hosts."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from lbdns_tools.bench.dns.benchmark_farm import MEMBERS
from lbdns_tools.faults.fault import Fault, Limits
from lbdns_tools.faults.fault_bed import FaultBed
from lbdns_tools.faults.fault_farm import FarmPlan
from lbdns_tools.faults.server_processes import signal_process

VICTIM: Final = "frodo"
SILENT_S: Final = 4.5  # s after which a silent member must be out: 3 intervals after its last report, and a margin
CHECKED_S: Final = 1.0  # s after which a member must be out whose web server's port is closed
HUNG_S: Final = 12.0  # s after which a member must be out whose web server accepts connections but serves nothing
BACK_S: Final = 10.0  # s within which a member must be back
PLAIN: Final = FarmPlan()
WEB: Final = FarmPlan(web_servers=True, check="tcp:{port}")


def agent_killed(bed: FaultBed) -> None:
    begin = bed.begin()
    bed.farm.agents[VICTIM].stop(signal.SIGKILL)
    bed.awaits(bed.state_is(VICTIM, "silent"), f"{VICTIM} is silent", SILENT_S)
    bed.keep(2.0)
    end = bed.ease()
    bed.forbid(VICTIM, begin + SILENT_S, end)
    bed.farm.start_agent(VICTIM)
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def agent_ends(bed: FaultBed) -> None:
    bed.begin()
    bed.farm.agents[VICTIM].stop()
    bed.awaits(bed.state_is(VICTIM, "silent"), f"{VICTIM} is silent immediately", 1.0)
    since = bed.ease()
    bed.keep(1.5)
    bed.forbid(VICTIM, since + 0.5, bed.ease())
    bed.farm.start_agent(VICTIM)
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def agent_stopped(bed: FaultBed) -> None:
    begin = bed.begin()
    agent = bed.farm.agents[VICTIM].pid
    signal_process(agent, signal.SIGSTOP)
    bed.keep(SILENT_S + 2.0)
    bed.forbid(VICTIM, begin + SILENT_S, bed.ease())
    signal_process(agent, signal.SIGCONT)
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def agent_flaps(bed: FaultBed) -> None:
    bed.begin()
    for _ in range(3 if bed.quick else 6):
        bed.farm.agents[VICTIM].stop(signal.SIGKILL)
        bed.keep(0.5)
        bed.farm.start_agent(VICTIM)
        bed.keep(1.0)
    bed.ease()
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def all_silent(bed: FaultBed) -> None:
    bed.begin()
    for agent in bed.farm.agents.values():
        agent.stop(signal.SIGKILL)
    bed.awaits(bed.fails_open, "the pool fails open", SILENT_S)
    bed.keep(3.0)
    bed.ease()
    for name in MEMBERS:
        bed.farm.start_agent(name)
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)
    bed.recovers(lambda: not bed.fails_open(), "the pool no longer fails open", BACK_S)


def web_server_killed(bed: FaultBed) -> None:
    begin = bed.begin()
    bed.farm.web_servers[VICTIM].stop(signal.SIGKILL)
    bed.awaits(lambda: VICTIM not in bed.farm.usable(), f"{VICTIM} is out", CHECKED_S)
    bed.keep(4.0)
    bed.forbid(VICTIM, begin + CHECKED_S, bed.ease())
    bed.farm.start_web_server(VICTIM)
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def web_server_stopped(bed: FaultBed) -> None:
    begin = bed.begin()
    web_server = bed.farm.web_servers[VICTIM].pid
    signal_process(web_server, signal.SIGSTOP)
    bed.awaits(lambda: VICTIM not in bed.farm.usable(), f"{VICTIM} is out", HUNG_S)
    bed.keep(3.0)
    bed.forbid(VICTIM, begin + HUNG_S + 1, bed.ease())
    signal_process(web_server, signal.SIGCONT)
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def web_server_flaps(bed: FaultBed) -> None:
    bed.begin()
    for _ in range(3 if bed.quick else 6):
        bed.farm.web_servers[VICTIM].stop(signal.SIGKILL)
        bed.keep(0.7)
        bed.farm.start_web_server(VICTIM)
        bed.keep(1.0)
    bed.ease()
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def all_web_servers_killed(bed: FaultBed) -> None:
    bed.begin()
    for web_server in bed.farm.web_servers.values():
        web_server.stop(signal.SIGKILL)
    bed.keep(SILENT_S + 3.0)
    bed.ease()
    for name in MEMBERS:
        bed.farm.start_web_server(name)
    bed.recovers(bed.all_usable, "all members are usable", BACK_S)


def _fault(
    name: str,
    done: str,
    holds: str,
    run: Callable[[FaultBed], None],
    quick: bool = False,
    farm: FarmPlan = PLAIN,
    recover_s: float = 8.0,
) -> Fault:
    return Fault(f"host.{name}", done, holds, run, Limits(recover_s=recover_s), farm, quick)


_OUT: Final = "no answer names the member until it returns to rotation"
FAULTS: Final = (
    _fault("agent-killed", "an agent is killed and later restarted",
           f"the member leaves rotation after 3 intervals; {_OUT}", agent_killed, quick=True),
    _fault("agent-ends", "an agent is terminated by SIGTERM and later restarted",
           f"the member leaves rotation immediately; {_OUT}", agent_ends),
    _fault("agent-stopped", "an agent is stopped by SIGSTOP and later resumed",
           f"the member leaves rotation after 3 intervals; {_OUT}", agent_stopped),
    _fault("agent-flaps", "an agent is killed and restarted repeatedly", "no query is lost", agent_flaps),
    _fault("all-silent", "all agents are killed and later restarted", "the pool fails open; answers name all members",
           all_silent),
    _fault("web-killed", "a web server is killed and later restarted",
           f"the member leaves rotation within {CHECKED_S:g} s; {_OUT}", web_server_killed, quick=True, farm=WEB),
    _fault("web-stopped", "a web server is stopped by SIGSTOP and later resumed",
           f"the member leaves rotation within {HUNG_S:g} s; {_OUT}",
           web_server_stopped, farm=FarmPlan(web_servers=True, check="http://:{port}/")),
    _fault("web-flaps", "a web server is killed and restarted repeatedly", "no query is lost", web_server_flaps,
           farm=WEB),
    _fault("all-web-servers", "all web servers are killed and later restarted",
           "queries are answered; all members return to rotation", all_web_servers_killed, farm=WEB),
)  # fmt: skip
