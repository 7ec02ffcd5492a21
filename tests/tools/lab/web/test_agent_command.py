"""The command of an agent, as the agent itself reads it."""

from __future__ import annotations

import sys
from pathlib import Path

from lbdns_agent.alarm_conditions import DEFAULT_CONDITIONS
from lbdns_agent.cli import build_parser, read_options
from lbdns_agent.gateway.default_route import Gateway
from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.farm.machine_addresses import machines
from lbdns_tools.lab.front.lbdns_server import DnsServerFiles
from lbdns_tools.lab.machines.control_groups import CgroupHierarchies, CgroupHierarchy, ControlGroup
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.web.agent_command import ALARMS, agent_command

UNIFIED = CgroupHierarchy(Path("/sys/fs/cgroup"), unified=True)


def test_the_agent_understands_it() -> None:
    hub, _, web, *_ = machines(LabFarm((WebHost("frodo", 0.07),)))
    place = PlacedMachine(
        web, "lbdns-1-frodo", ControlGroup("lbdns-lab/1/frodo", CgroupHierarchies(UNIFIED, UNIFIED, UNIFIED))
    )
    command = agent_command(DnsServerFiles(Path("/lab/dns"), "198.18.0.53"), place, hub, 0.5)
    assert command[:3] == (sys.executable, "-m", "lbdns_agent")
    parser = build_parser()
    options = read_options(parser, parser.parse_args(command[3:]))
    assert options.name == "frodo"
    assert [str(collector) for collector in options.collectors] == ["198.18.0.53:7777"]
    assert options.interval == 0.5
    assert options.key_file == Path("/lab/dns/frodo.key")
    assert str(options.status) == "http://198.18.1.1/server-status?auto"
    assert options.gateway == Gateway("198.18.0.1")
    assert options.cgroup == "/sys/fs/cgroup/lbdns-lab/1/frodo"
    assert len(options.alarms) == len(ALARMS)


def test_alarms_are_the_agents_own_but_for_the_run_queue() -> None:
    assert set(DEFAULT_CONDITIONS) - set(ALARMS) == {"run_queue/cpu > 64"}
    assert set(ALARMS) < set(DEFAULT_CONDITIONS)
