"""Runs a real nats-server on a free loopback port, and publishes reports to it with the agent's own client."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lbdns_agent.bus.bus_options import BusOptions
from lbdns_agent.bus.bus_publisher import BusPublisher
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_shared.bus_subject import report_subject
from lbdns_shared.bus_url import parse_bus_url
from lbdns_shared.nkey import Nkey
from lbdns_tools.free_ports import free_ports
from lbdns_tools.nats_servers import COLLECTOR, answers, users_text
from tests.certificates import self_signed
from tests.end_to_end.harness import FakeAgent, Site
from tests.end_to_end.process import Program, eventually, running
from tests.needs import program


@dataclass(frozen=True)
class Bus:
    """The files of a NATS server with one user for each host. The password of every user is its name."""

    folder: Path
    port: int
    certificate: Path | None = None
    jetstream: bool = False  # whether the server has JetStream, with its store in ``folder``
    answers: str = "lbdns.answers"  # the subject for answers that the users of servers may use
    nkeys: Mapping[str, Nkey] = field(default_factory=dict)  # of users who have no password

    @property
    def scheme(self) -> str:
        return "tls" if self.certificate else "nats"

    def url(self, user: str, password: str = "") -> str:
        if user in self.nkeys:
            return f"{self.scheme}://localhost:{self.port}"
        return f"{self.scheme}://{user}:{password or user}@localhost:{self.port}"

    def section(self, user: str = COLLECTOR, password: str = "") -> str:
        """Return the section [bus] for a collector."""
        authority = f'tls_ca = "{self.certificate}"\n' if self.certificate else ""
        return f'[bus]\nurl = ["{self.url(user, password)}"]\n{authority}'

    @property
    def store(self) -> Path:
        return self.folder / "jetstream"

    def write(self, *hosts: str) -> None:
        """Write the server's configuration: each host may publish its own subject alone."""
        tls = ""
        if self.certificate:
            tls = f'tls {{cert_file: "{self.certificate}", key_file: "{self.certificate.with_suffix(".key")}"}}\n'
        if self.jetstream:
            tls += f'jetstream {{store_dir: "{self.store}"}}\n'
        logins = {user: f'nkey: "{nkey.public_key}"' for user, nkey in self.nkeys.items()}
        users = users_text(hosts, self.jetstream, logins, self.answers)
        text = f"listen: 127.0.0.1:{self.port}\n{tls}{users}"
        (self.folder / "nats.conf").write_text(text)


def new_bus(folder: Path, *hosts: str, tls: bool = False, jetstream: bool = False) -> Bus:
    """Return a bus on a free port for these hosts."""
    bus = Bus(folder, free_ports(1)[0], self_signed(folder, "localhost")[0] if tls else None, jetstream)
    bus.write(*hosts)
    return bus


@contextlib.contextmanager
def serving_bus(bus: Bus) -> Iterator[Program]:
    """Run the server, and yield it once it accepts connections."""
    with running(program("nats-server"), "-c", str(bus.folder / "nats.conf")) as server:
        server.until(lambda: answers(bus.port), "nats-server accepts connections")
        yield server


class PublishingAgent(FakeAgent):
    """A fake agent that publishes its reports instead of sending them over UDP."""

    def __init__(self, site: Site, host: str, bus: Bus, user: str = "", subject: str = "") -> None:
        super().__init__(site, host)
        options = BusOptions((parse_bus_url(bus.url(user or host)),), None, bus.certificate)
        self.publisher = BusPublisher(options, subject or report_subject("web", host), f"test {host}")
        self.tasks = SensorTasks()
        self.tasks.services.append(self.publisher)

    def send_bytes(self, datagram: bytes) -> None:
        """Publish a datagram, and wait until the server has it."""
        self.publisher.publish(datagram)
        eventually(self._is_published, f"{self.host} publishes a report")

    def _is_published(self) -> bool:
        self.tasks.wait(time.monotonic() + 0.01)
        connection = self.publisher._connection
        if not (connection and connection.session.is_ready and self.publisher._newest is None):
            return False
        if not connection.session.has_unconfirmed:
            return True
        connection.session.ping()
        return False

    def close(self) -> None:
        super().close()
        self.publisher.close()
