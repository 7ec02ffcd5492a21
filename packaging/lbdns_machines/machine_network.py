"""A bridge that connects only the machines, in a network namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from ipaddress import ip_network
from types import TracebackType
from typing import Final, Self

from lbdns_machines.machine_plans import GATEWAY, NETWORK

BRIDGE: Final = "bridge0"
_LIMIT: Final = 30.0  # seconds for one command of ip


class MachineNetwork:
    """The namespace and its bridge, which exist during a ``with`` statement. Needs root. Raises OSError if they cannot
    be made."""

    def __init__(self) -> None:
        self.name = f"lbdns-machines-{os.getpid()}"

    @property
    def path(self) -> str:
        """The path of the namespace's file, for nsenter."""
        return f"/run/netns/{self.name}"

    def __enter__(self) -> Self:
        self._ip("netns", "add", self.name)
        try:
            length = ip_network(NETWORK).prefixlen
            self._ip("-n", self.name, "link", "set", "lo", "up")
            self._ip("-n", self.name, "link", "add", BRIDGE, "type", "bridge")
            self._ip("-n", self.name, "address", "add", f"{GATEWAY}/{length}", "dev", BRIDGE)
            self._ip("-n", self.name, "link", "set", BRIDGE, "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        try:
            self._ip("netns", "delete", self.name)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"machines: the network namespace {self.name} remains: {error}", file=sys.stderr)

    def _ip(self, *arguments: str) -> None:
        result = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True, timeout=_LIMIT)
        if result.returncode:
            raise OSError(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
