"""Tests of the machines on which the tutorial's blocks run, and of the commands for each web server."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_machines.command_blocks import CommandBlock
from lbdns_machines.control_groups import ControlGroups
from lbdns_machines.machine import Machine
from lbdns_machines.machine_farm import MachineFarm
from lbdns_machines.machine_network import MachineNetwork
from lbdns_machines.machine_plans import FULL
from lbdns_machines.tutorial_steps import commands_on_machines, for_web_server, step_name

KEYGEN = "lbdns keygen --agent gandalf |\n    ssh root@192.0.2.1 'cat > gandalf.key'\n"


@pytest.fixture
def farm(tmp_path: Path) -> MachineFarm:
    """Return the machines of the full form, which are not booted."""
    farm = MachineFarm(FULL, tmp_path, tmp_path)
    for plan in FULL:
        farm.machines[plan.name] = Machine(plan, tmp_path, MachineNetwork(), ControlGroups(), tmp_path / "log")
    return farm


@pytest.mark.parametrize(
    ("where", "machines"),
    [
        ("ns", ["ns"]),
        ("client", ["client"]),
        ("each web server", ["gandalf", "frodo", "bilbo"]),
        ("ns for each web server", ["ns", "ns", "ns"]),
    ],
)
def test_blocks_run_on_the_machines_that_the_page_names(farm: MachineFarm, where: str, machines: list[str]) -> None:
    found = list(commands_on_machines(CommandBlock(where, KEYGEN, 7), farm))
    assert [machine.name for machine, _ in found] == machines


def test_a_machine_that_does_not_exist_is_an_error(farm: MachineFarm) -> None:
    with pytest.raises(ValueError, match="line 7: there is no machine 'mordor', only ns, parent, gandalf"):
        list(commands_on_machines(CommandBlock("mordor", "ls\n", 7), farm))


def test_commands_for_each_web_server_have_its_name_and_address(farm: MachineFarm) -> None:
    commands = [
        commands for _, commands in commands_on_machines(CommandBlock("ns for each web server", KEYGEN, 7), farm)
    ]
    assert commands[0] == KEYGEN
    assert commands[1].startswith("lbdns keygen --agent frodo |\n    ssh root@192.0.2.2 ")


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ("ping 192.0.2.1", "ping 192.0.2.9"),
        ("ping 192.0.2.10 192.0.2.1", "ping 192.0.2.10 192.0.2.9"),
        ("gandalf=192.0.2.1,frodo=192.0.2.2", "sam=192.0.2.9,frodo=192.0.2.2"),
        ("gandalfs", "gandalfs"),
    ],
)
def test_only_whole_names_and_addresses_are_replaced(commands: str, expected: str) -> None:
    assert for_web_server(commands, "sam", "192.0.2.9") == expected


@pytest.mark.parametrize(
    ("commands", "name"),
    [
        ("lbdns check          # print a summary\nls\n", "ns: lbdns check"),
        ("lbdns init --zone z \\\n    --member a=1\n", "ns: lbdns init --zone z"),
    ],
)
def test_a_step_is_named_after_its_first_line(farm: MachineFarm, commands: str, name: str) -> None:
    assert step_name(farm["ns"], commands) == name
