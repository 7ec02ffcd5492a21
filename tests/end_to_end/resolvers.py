"""Resolvers and C libraries in a client's namespace that send their queries to lbdns."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.end_to_end.namespaces import DNS4, Namespace
from tests.end_to_end.process import Program, running
from tests.needs import program

LOCAL: Final = "127.0.0.1"
STUB: Final = "127.0.0.53"  # where systemd-resolved listens
RESOLVED: Final = "/lib/systemd/systemd-resolved"
#: Looks a name up again and again: name, number, pause in seconds. lookups.c does the same
LOOKUPS: Final = """
import socket, sys, time
for _ in range(int(sys.argv[2])):
    try:
        found = socket.getaddrinfo(sys.argv[1], 80, type=socket.SOCK_STREAM)
    except OSError:
        continue
    print(*sorted({one[4][0] for one in found}), flush=True)
    time.sleep(float(sys.argv[3]))
"""
NAMED: Final = """
options {{ directory "{folder}"; listen-on port 53 {{ {local}; }}; listen-on-v6 {{ none; }}; recursion yes;
  dnssec-validation no; pid-file none; session-keyfile none; managed-keys-directory "{folder}"; {options} }};
{zones}
controls {{ }};
"""
UNBOUND: Final = """
server:
  interface: {local}
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: ""
  use-syslog: no
  module-config: "iterator"
  num-threads: 1
remote-control:
  control-enable: no
stub-zone:
  name: "hobbit"
  stub-addr: {dns}
"""


@dataclass(frozen=True)
class Resolver:
    """A way to resolve names: ``command`` writes files into a folder and returns what to start there, if anything."""

    name: str
    programs: Sequence[str]  # that it needs
    address: str  # where the C library sends queries
    command: Callable[[Path], Sequence[str]] | None = None
    options: str = ""  # of resolv.conf
    alternates: bool = False  # whether each query waits for the previous answer, and comes from another port
    library: str = "glibc"

    @contextlib.contextmanager
    def serving(self, client: Namespace, folder: Path) -> Iterator[None]:
        """Resolve the names of programs in ``client`` in this way."""
        client.resolv_conf(f"nameserver {self.address}", *([f"options {self.options}"] if self.options else []))
        if self.command is None:
            yield
            return
        with running(*self.command(folder), inside=client.inside) as started:
            self._wait(started, client)
            yield

    def _wait(self, started: Program, client: Namespace) -> None:
        look_up = (sys.executable, "-c", LOOKUPS, "ns.hobbit", "1", "0")
        started.until(lambda: client.run(*look_up, check=False).stdout, f"{self.name} answers")

    def lookups(self, folder: Path) -> Sequence[str]:
        """Return the command that looks names up; its arguments follow."""
        if self.library == "glibc":
            return sys.executable, "-c", LOOKUPS
        return (str(folder / "lookups"),)


def _dnsmasq(folder: Path) -> Sequence[str]:
    return (
        program("dnsmasq"), "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
        "--pid-file=", f"--server={DNS4}", f"--listen-address={LOCAL}", "--bind-interfaces",
    )  # fmt: skip


def _named(options: str, zones: str) -> Callable[[Path], Sequence[str]]:
    def command(folder: Path) -> Sequence[str]:
        path = folder / "named.conf"
        path.write_text(NAMED.format(folder=folder, local=LOCAL, options=options, zones=zones))
        return program("named"), "-g", "-c", str(path), "-n", "1"

    return command


def _unbound(folder: Path) -> Sequence[str]:
    path = folder / "unbound.conf"
    path.write_text(UNBOUND.format(folder=folder, local=LOCAL, dns=DNS4))
    return program("unbound"), "-d", "-c", str(path)


def _resolved(folder: Path) -> Sequence[str]:
    """Start systemd-resolved with a resolv.conf and a /run of its own; ip netns exec makes a new mount namespace."""
    path = folder / "resolv.conf"
    path.write_text(f"nameserver {DNS4}\n")
    prepare = (
        "mount -t tmpfs tmpfs /run && install -d -o systemd-resolve -g systemd-resolve /run/systemd/resolve && "
        'mount --bind "$1" /etc/resolv.conf && exec "$2"'
    )
    return "sh", "-c", prepare, "sh", str(path), RESOLVED


STATIC_STUB: Final = f'zone "hobbit" {{ type static-stub; server-addresses {{ {DNS4}; }}; }};'
RESOLVERS: Final = (
    Resolver("glibc", (), DNS4),
    Resolver("glibc, single-request", (), DNS4, options="single-request"),
    Resolver("glibc, single-request-reopen", (), DNS4, options="single-request-reopen", alternates=True),
    Resolver("musl", ("gcc", "musl-gcc"), DNS4, library="musl"),
    Resolver("dnsmasq", ("dnsmasq",), LOCAL, _dnsmasq),
    Resolver("BIND, forwarder", ("named",), LOCAL, _named(f"forwarders {{ {DNS4}; }}; forward only;", "")),
    Resolver("BIND, recursive", ("named",), LOCAL, _named("", STATIC_STUB)),
    Resolver("Unbound", ("unbound",), LOCAL, _unbound),
    Resolver("systemd-resolved", (), STUB, _resolved),
)
