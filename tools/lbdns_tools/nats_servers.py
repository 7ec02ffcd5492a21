"""Runs nats-servers on free loopback ports: one alone, or a cluster, with one user for each host of a farm."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from lbdns.server.answer_sharing.answer_messages import SUBJECT
from lbdns_shared.bus_subject import report_subject
from lbdns_tools.free_ports import free_ports
from lbdns_tools.installed_programs import path_of
from lbdns_tools.lab.programs.lab_programs import LabProgram, LabPrograms

PROGRAM: Final = "nats-server"
COLLECTOR, SERVER, WIDE = "collector", "server", "wide"  # users; the last may publish anything
#: Subjects that a server publishes to share its overrides, as in docs/scale.md
SHARING: Final = (
    "$KV.lbdns_overrides.>",
    "$JS.API.STREAM.INFO.KV_lbdns_overrides",
    "$JS.API.STREAM.CREATE.KV_lbdns_overrides",
    "$JS.API.CONSUMER.CREATE.KV_lbdns_overrides",
    "$JS.API.CONSUMER.INFO.KV_lbdns_overrides.*",
    "$JS.FC.KV_lbdns_overrides.>",
)
NOWHERE: Final = "127.0.0.1:1"  # an address at which nothing listens
ANSWER_S: Final = 1.0  # s that a running server may take to send the first message
FORGET_S: Final = 1  # s between two PINGs on a route; after two without a reply, a server closes the route


def users_text(
    hosts: Sequence[str], jetstream: bool, logins: Mapping[str, str] | None = None, answer_subject: str = SUBJECT
) -> str:
    """Return the block ``authorization`` of a server's configuration: each host may publish its own subject alone.

    The password of every user is its name. ``logins`` maps users to other credentials, such as ``nkey: "U..."``.
    ``answer_subject`` is the subject on which servers may share the number of their answers.
    """
    publish = "".join(f', "{subject}"' for subject in (answer_subject, *(SHARING if jetstream else ())))
    inbox = ', "_INBOX.>"' if jetstream else ""
    permissions = {
        host: f'publish: "{report_subject("web", host)}", subscribe: {{deny: ">"}}' for host in hosts
    } | {
        COLLECTOR: f'publish: ["lbdns.snapshot.>"{publish}], '
        f'subscribe: ["{answer_subject}", "lbdns.report.>", "lbdns.snapshot.>"{inbox}]',
        SERVER: f'publish: ["lbdns.snapshot.request"{publish}], '
        f'subscribe: ["{answer_subject}", "lbdns.snapshot.changes", "lbdns.snapshot.reply.>"{inbox}]',
    }  # fmt: skip
    users = [
        f"{{{(logins or {}).get(user) or login(user)}, permissions: {{{allowed}}}}}"
        for user, allowed in permissions.items()
    ]
    lines = "\n".join([*users, f"{{{login(WIDE)}}}"])
    return f"authorization {{users: [\n{lines}\n]}}\n"


def login(user: str) -> str:
    return f'user: "{user}", password: "{user}"'


def answers(port: int) -> bool:
    """Return whether a server on a loopback port accepts connections."""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
            return connection.recv(4) == b"INFO"
    except OSError:
        return False


@dataclass(slots=True)
class NatsNode:
    """One server. ``others`` maps the numbers of the other servers to the ports through which it reaches them.

    ``store`` is the folder in which JetStream stores its files.
    """

    number: int
    port: int
    route_port: int
    store: Path
    others: dict[int, int] = field(default_factory=dict)
    program: LabProgram | None = None


class NatsServers:
    """A context manager for one server, or for a cluster of several, which stops them all on exit.

    ``nodes`` are the servers. ``hosts`` are those that report to the pool ``web``.
    """

    def __init__(self, folder: Path, hosts: Sequence[str], count: int = 1, *, jetstream: bool = False) -> None:
        """``folder`` must exist."""
        ports = free_ports(2 * count)
        self.jetstream = jetstream
        self.hosts = tuple(hosts)
        self._folder = folder
        self._programs = LabPrograms(folder)
        self.nodes = [
            NatsNode(number, ports[number], ports[count + number], folder / f"jetstream-{number}")
            for number in range(count)
        ]
        for node in self.nodes:
            node.others = {other.number: other.route_port for other in self.nodes if other is not node}

    def __enter__(self) -> NatsServers:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            if node.program and node.program.running:
                self.signal(node.number, signal.SIGCONT)  # a stopped process does not end
        self._programs.close()

    def start(self, *numbers: int) -> None:
        """Start these servers, or all, and wait until each accepts connections. Raises LbdnsError."""
        for number in numbers or range(len(self.nodes)):
            node = self.nodes[number]
            path = self._folder / f"nats-{number}.conf"
            path.touch(mode=0o600)
            path.write_text(self.configuration(node))
            command = (path_of(PROGRAM), "-c", str(path))
            node.program = self._programs.start(f"nats-{number}", command, partial(answers, node.port))

    def kill(self, number: int) -> None:
        self._program(number).stop(signal.SIGKILL)

    def signal(self, number: int, what: signal.Signals) -> None:
        os.kill(self._program(number).pid, what)

    def url(self, number: int, user: str, password: str = "", port: int = 0) -> str:
        """Return the URL of a server. ``port`` replaces its own port, as that of a relay."""
        return f"nats://{user}:{password or user}@127.0.0.1:{port or self.nodes[number].port}"

    def _program(self, number: int) -> LabProgram:
        program = self.nodes[number].program
        assert program is not None, "the server has been started"
        return program

    def configuration(self, node: NatsNode) -> str:
        text = f'server_name: "nats-{node.number}"\nlisten: "127.0.0.1:{node.port}"\n'
        text += users_text(self.hosts, self.jetstream)
        if self.jetstream:
            text += f'jetstream {{store_dir: "{node.store}"}}\n'
        if node.others:
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in node.others.values())
            # Servers tell each other addresses: an address at which nothing listens keeps them to the routes listed
            text += (
                f'cluster {{name: "lbdns", listen: "127.0.0.1:{node.route_port}", advertise: "{NOWHERE}", '
                f"no_advertise: true, routes: [{routes}]}}\nping_interval: {FORGET_S}\nping_max: 2\n"
            )
        return text
