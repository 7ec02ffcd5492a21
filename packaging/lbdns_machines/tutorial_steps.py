"""Runs the command blocks of the tutorial on the machines that the page names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lbdns_machines.command_blocks import CommandBlock
from lbdns_machines.machine import Machine
from lbdns_machines.machine_farm import MachineFarm

#: The web server whose name and address stand for those of every web server in blocks that run for each
EXAMPLE: Final = ("gandalf", "192.0.2.1")
EACH: Final = "each web server"
FOR_EACH: Final = "ns for each web server"


def commands_on_machines(block: CommandBlock, farm: MachineFarm) -> Iterator[tuple[Machine, str]]:
    """Yield the machines that run ``block``, with the commands that each runs. Raises ValueError if there are none."""
    if block.where == EACH:
        yield from ((machine, block.commands) for machine in farm.web_servers)
    elif block.where == FOR_EACH:
        for machine in farm.web_servers:
            yield farm["ns"], for_web_server(block.commands, machine.name, machine.address)
    elif block.where in farm.machines:
        yield farm[block.where], block.commands
    else:
        raise ValueError(f"line {block.line}: there is no machine {block.where!r}, only {', '.join(farm.machines)}")


def for_web_server(commands: str, name: str, address: str) -> str:
    """Replace the example's name and address in ``commands`` by those of another web server, and return the result."""
    for example, actual in zip(EXAMPLE, (name, address), strict=True):
        commands = re.sub(rf"(?<![\w.]){re.escape(example)}(?![\w.])", actual, commands)
    return commands


def step_name(machine: Machine, commands: str) -> str:
    """Return the name of a step: the machine, and the first line of the commands without its comment."""
    first = re.split(r"\s{2,}#|\s\\$", commands.strip().splitlines()[0])[0]
    return f"{machine.name}: {first}"
