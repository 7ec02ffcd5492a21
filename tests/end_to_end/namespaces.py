"""Network namespaces for a test's server and client, connected by a veth pair and always removed."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.needs import program

# Addresses for tests of networks (RFC 2544) and of no one else's network (RFC 4193)
DNS4: Final = "198.18.0.53"
DNS6: Final = "fd00::53"
CLIENT4: Final = "198.18.0.2"
CLIENT6: Final = "fd00::2"
_numbers = itertools.count()


@dataclass(frozen=True)
class Namespace:
    """One network namespace."""

    name: str

    @property
    def inside(self) -> tuple[str, ...]:
        """The prefix that makes a command run in the namespace, with the namespace's resolv.conf (see ip-netns(8))."""
        return program("ip"), "netns", "exec", self.name

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the namespace, and wait until it ends."""
        return subprocess.run([*self.inside, *command], capture_output=True, text=True, check=check, timeout=300)

    def run_with(self, text: str, *command: str) -> str:
        """Run a command with ``text`` as its standard input, and return what it prints."""
        command = *self.inside, *command
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=300).stdout

    def resolv_conf(self, *lines: str) -> None:
        """Write a resolv.conf for the namespace."""
        folder = Path("/etc/netns", self.name)
        folder.mkdir(parents=True, exist_ok=True)
        # Written in place: a running command has this very file mounted
        (folder / "resolv.conf").write_text("".join(f"{line}\n" for line in lines))


def _ip(*words: str) -> None:
    subprocess.run([program("ip"), *words], check=True, capture_output=True, text=True, timeout=60)


@contextlib.contextmanager
def server_and_client(addresses: Sequence[str]) -> Iterator[tuple[Namespace, Namespace]]:
    """Connect two namespaces, for a server and a client. The server has the addresses DNS4, DNS6 and ``addresses``."""
    number = f"{os.getpid()}-{next(_numbers)}"
    server, client = Namespace(f"lbdns-s-{number}"), Namespace(f"lbdns-c-{number}")
    with contextlib.ExitStack() as stack:
        for namespace in (server, client):
            _ip("netns", "add", namespace.name)
            stack.callback(_remove, namespace)
        _ip(
            "link", "add", "wire", "netns", server.name, "type", "veth",
            "peer", "name", "wire", "netns", client.name,
        )  # fmt: skip
        for namespace, own in ((server, (DNS4, DNS6, *addresses)), (client, (CLIENT4, CLIENT6))):
            for address in own:
                # nodad: usable at once, where the kernel would look for a second of the same address first
                six = ":" in address
                words = [f"{address}/{64 if six else 24}", "dev", "wire", *(["nodad"] if six else [])]
                _ip("-n", namespace.name, "address", "add", *words)
            for link in ("lo", "wire"):
                _ip("-n", namespace.name, "link", "set", link, "up")
        yield server, client


def _remove(namespace: Namespace) -> None:
    _ip("netns", "delete", namespace.name)
    shutil.rmtree(Path("/etc/netns", namespace.name), ignore_errors=True)
    with contextlib.suppress(OSError):
        Path("/etc/netns").rmdir()  # ours, unless somebody else has one there too
