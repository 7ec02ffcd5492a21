"""A DNS server with its files on free ports, fake agents, and functions that send queries."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dns.exception
import dns.message
import dns.query
import dns.rdatatype

from lbdns_shared.keys import MasterKey, agent_line, new_master_key
from lbdns_shared.report import Kind, Report, encode
from lbdns_tools.free_ports import free_ports
from tests.config.config_files import ZONE, pool_table
from tests.end_to_end.process import PATIENCE, Program, python, running
from tests.needs import program

#: Who may read the pages where they are not on the loopback: the networks that namespaces have.
WEB = 'allow = ["198.18.0.0/15", "fd00::/8"]'

HOBBIT = """\
$TTL 300
@ SOA ns hostmaster 7 3600 900 604800 60
@ NS ns
ns A 127.0.0.1
"""
#: Metrics of a host that has nothing to do; its score is 80
IDLE: Mapping[str, float] = {
    "run_queue": 0.0, "cpu_idle": 100.0, "gateway_ping": 0.0, "requests_per_s": 0.0, "scan_rate": 0.0,
    "idle_workers": 20.0, "busy_workers": 0.0, "cpu_count": 2.0,
}  # fmt: skip


@dataclass(frozen=True)
class Site:
    """The files and ports of one farm. ``members`` maps the host names in a pool of zone hobbit to their addresses."""

    folder: Path
    members: Mapping[str, Sequence[str]]
    address: str = "127.0.0.1"
    master: MasterKey | None = field(default_factory=new_master_key)
    dns_port: int = 0
    report_port: int = 0
    http_port: int = 0

    @property
    def config(self) -> Path:
        return self.folder / "lbdns.toml"

    @property
    def key_file(self) -> Path:
        return self.folder / "report.key"

    def agent_key_file(self, host: str) -> Path:
        """Write a key file for one agent, and return its path."""
        assert self.master is not None
        path = self.folder / f"{host}.key"
        path.write_text(agent_line(self.master.agent_key(host)) + "\n")
        path.chmod(0o600)
        return path

    def write(self, **extra: str) -> None:
        """Write the zone, keys and configuration; ``extra`` adds lines to the server, pool, collector or web table."""
        zone = [HOBBIT]
        for name, addresses in self.members.items():
            zone += [f"{name} {'AAAA' if ':' in address else 'A'} {address}\n" for address in addresses]
        (self.folder / "hobbit.zone").write_text("".join(zone))
        key_line = ""
        if self.master:
            self.key_file.write_text(self.master.line() + "\n")
            self.key_file.chmod(0o600)
            key_line = 'key_file = "report.key"'
        collector = extra.get("collector", f'listen = ["{self.at(self.report_port)}"]\n{key_line}')
        self.config.write_text(
            f'[server]\nlisten = ["{self.at(self.dns_port)}"]\nstate_dir = "state"\ncontrol = "control.sock"\n'
            f"{extra.get('server', '')}\n"
            f"{ZONE}{pool_table(*self.members, more=extra.get('pool', ''))}"
            f"[collector]\n{collector}\n"
            f'[web]\nlisten = "{self.at(self.http_port)}"\n{extra.get("web", WEB)}\n'
        )

    def at(self, port: int) -> str:
        return f"[{self.address}]:{port}" if ":" in self.address else f"{self.address}:{port}"

    def status(self) -> dict[str, Any]:
        """What /api/v1/status says."""
        found: dict[str, Any] = json.loads(self.page("/api/v1/status"))
        return found

    def members_by_name(self) -> dict[str, dict[str, Any]]:
        return {member["name"]: member for member in self.status()["pools"][0]["members"]}

    def page(self, path: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.at(self.http_port)}{path}", timeout=PATIENCE) as response:
            text: str = response.read().decode()
        return text

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a sample in /metrics, or 0 if there is no such sample."""
        for line in self.page("/metrics").splitlines():
            head, _, value = line.rpartition(" ")
            if head.partition("{")[0] == name and all(f'{k}="{v}"' in head for k, v in labels.items()):
                return float(value)
        return 0.0


def new_site(folder: Path, members: Mapping[str, Sequence[str]], **more: Any) -> Site:
    """Return a site on free loopback ports."""
    dns_port, report_port, http_port = free_ports(3)
    return Site(folder, members, dns_port=dns_port, report_port=report_port, http_port=http_port, **more)


@contextlib.contextmanager
def serving(site: Site, *options: str, inside: Sequence[str] = ()) -> Iterator[Program]:
    """Run ``lbdns serve`` for a site whose files already exist, and yield the server once it answers."""
    command = python("lbdns", "serve", "-c", str(site.config), *options)
    with running(*command, inside=inside) as server:
        if not inside:
            server.until(lambda: answers(site), "lbdns serve answers")
        yield server


def answers(site: Site) -> bool:
    """Return whether the server answers DNS queries for the zone and its health check succeeds."""
    try:
        dns.query.udp(dns.message.make_query("hobbit", "SOA"), site.address, 2.0, site.dns_port)
        site.page("/healthz")
    except (OSError, dns.exception.Timeout):
        return False
    return True


def ask(site: Site, name: str, rdtype: str = "A", *, tcp: bool = False) -> dns.message.Message:
    """Return the server's response over UDP or TCP."""
    query = dns.message.make_query(name, rdtype)
    if tcp:
        return dns.query.tcp(query, site.address, PATIENCE, site.dns_port)
    return dns.query.udp(query, site.address, PATIENCE, site.dns_port)


def best(site: Site, name: str = "best.hobbit") -> str:
    """Return the member that an answer for ``name`` currently names."""
    answer = ask(site, name).answer[0]
    assert answer.rdtype == dns.rdatatype.CNAME
    return str(answer[0].target).split(".")[0]


def dig(site: Site, *arguments: str) -> str:
    """What ``dig`` prints."""
    command = [program("dig"), f"@{site.address}", "-p", str(site.dns_port), "+time=30", "+tries=1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


#: Seconds between a fake agent's reports: long, so that no pause of a busy machine makes a member silent
LONG = 60.0


class FakeAgent:
    """Sends reports as an agent does, but with values from the test."""

    def __init__(self, site: Site, host: str, interval: float = LONG) -> None:
        self.host, self.interval, self.boot, self.seq = host, interval, secrets.randbits(63), 0
        self.site, self.master = site, site.master
        self._to = (site.address, site.report_port)
        self.socket = socket.socket(socket.AF_INET6 if ":" in site.address else socket.AF_INET, socket.SOCK_DGRAM)

    def datagram(
        self,
        kind: Kind = "data",
        alarm: str = "",
        *,
        late: float = 0.0,
        host: str = "",
        master: MasterKey | None = None,
        **metrics: float,
    ) -> bytes:
        """Return the next report: an idle host's metrics, updated with ``metrics`` and dated ``late`` seconds ago."""
        self.seq += 1
        report = Report(
            host=host or self.host, boot=self.boot, seq=self.seq, time=time.time() - late,
            interval=self.interval, metrics={**IDLE, **metrics}, kind=kind, alarm=alarm,
        )  # fmt: skip
        signer = master or self.master
        return encode(report, signer.agent_key(report.host) if signer else None)

    def send(self, kind: Kind = "data", alarm: str = "", **metrics: Any) -> None:
        self.send_bytes(self.datagram(kind, alarm, **metrics))

    def send_bytes(self, datagram: bytes) -> None:
        self.socket.sendto(datagram, self._to)

    def close(self) -> None:
        self.socket.close()


@contextlib.contextmanager
def agents(site: Site, interval: float = LONG) -> Iterator[dict[str, FakeAgent]]:
    """Yield a fake agent for every member."""
    found = {name: FakeAgent(site, name, interval) for name in site.members}
    try:
        yield found
    finally:
        for agent in found.values():
            agent.close()
