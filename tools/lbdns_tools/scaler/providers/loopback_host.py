"""The commands that run on a local server with a loopback address: the demo's web server, and the agent."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lbdns_tools.scaler.providers.machine_folder import LocalMachine


class LoopbackHost:
    """The commands that run on a server with a loopback address."""

    def __init__(self, machine: LocalMachine) -> None:
        self._machine = machine

    def web_server(self) -> Sequence[str]:
        """Return the command that runs the web server."""
        machine = self._machine
        listen = f"{machine.address}:{machine.port}"
        words = option_words(name=machine.name, listen=listen, workers=str(machine.workers))
        return [sys.executable, "-m", "lbdns.demo.webserver", *words]

    def agent(self, key_file: Path) -> Sequence[str]:
        """Return the command that runs the agent."""
        machine = self._machine
        url = f"http://{machine.address}:{machine.port}/server-status?auto"
        return agent_command(machine, key_file, {"server-status": url, "gateway": "off"})


def agent_command(machine: LocalMachine, key_file: Path, options: Mapping[str, str]) -> list[str]:
    """Return the command that runs the agent of a server, with further ``options``."""
    own = {"name": machine.name, "address": machine.address, "key-file": str(key_file), "log-level": "warning"}
    return [sys.executable, "-m", "lbdns_agent", *option_words(**own, **options), *machine.agent]


def option_words(**options: str) -> list[str]:
    """Return command-line options, in the form ``--name value``."""
    return [word for name, value in options.items() for word in (f"--{name}", value)]
