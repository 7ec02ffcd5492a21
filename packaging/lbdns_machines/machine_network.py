"""A bridge that connects only the machines, in a network namespace of its own."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lbdns_machines.machine_plans import GATEWAY, NETWORK
from lbdns_machines.run_names import run_name

BRIDGE: Final = "bridge0"
_LIMIT: Final = 30.0  # seconds for one command of ip


class MachineNetwork:
    """The namespace and its bridge, which exist during a ``with`` statement. Needs root. Raises OSError if they cannot
    be made."""

    def __init__(self) -> None:
        self.name = run_name()

    @property
    def path(self) -> str:
        """The path of the namespace's file, for nsenter."""
        return f"/run/netns/{self.name}"

    def __enter__(self) -> Self:
        try:
            _ip("netns", "add", self.name)
            length = ip_network(NETWORK).prefixlen
            _ip("-n", self.name, "link", "set", "lo", "up")
            _ip("-n", self.name, "link", "add", BRIDGE, "type", "bridge")
            _ip("-n", self.name, "address", "add", f"{GATEWAY}/{length}", "dev", BRIDGE)
            _ip("-n", self.name, "link", "set", BRIDGE, "up")
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Delete the namespace, if it exists. If that fails, print a message."""
        if not Path(self.path).exists():
            return
        try:
            delete_namespace(self.name)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"machines: the network namespace {self.name} remains: {error}", file=sys.stderr)


def delete_namespace(name: str) -> None:
    """Delete the network namespace ``name``. Raises OSError or SubprocessError."""
    _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    result = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True, timeout=_LIMIT)
    if result.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
