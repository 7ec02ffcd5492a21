"""A server for queries from independent clients (dig, kdig, drill), and a parser for the output of dig."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from lbdns_shared.endpoint import Endpoint, parse_endpoint
from tests.answering.farms import HOBBIT
from tests.config.config_files import ZONE, pool_table
from tests.end_to_end.process import Program, python, running
from tests.needs import needs, program

SECRET: Final = "e5e973e5a6b2a43f48e7dc849e37bfcf"
IDENTITY: Final = "ns1.shire"
VERSION: Final = "one ring 1"
PATIENCE: Final = 60.0  # s for one client: a loaded machine is slow, but nothing hangs
_CONFIG: Final = """
[server]
listen = ["127.0.0.1:0"]
control = "control.sock"
state_dir = "state"
{server}
[cookies]
{cookies}
[rate_limit]
{rate_limit}
{tables}[collector]
listen = ["127.0.0.1:0"]
[web]
listen = "off"
"""
#: A key set that is longer than 512 bytes, as tests of DNSSEC-aware servers have it
_KEYS: Final = "".join(f"@ DNSKEY 25{flag} 3 8 {'AwEAA' * 80}\n" for flag in (6, 7))


#: Who answers usual queries over UDP: tests are made with both
PLANES: Final = ["python", pytest.param("native", marks=needs(native=True))]


@contextmanager
def serving(
    folder: Path,
    *,
    plane: str = "auto",
    server: str = "",
    cookies: str = 'secret_file = "cookie.secret"',
    rate_limit: str = "",
    zone: str = "",
) -> Iterator[tuple[Program, Endpoint]]:
    """Run ``lbdns serve`` for zone ``hobbit`` with additional records ``zone``; yield the program and its address."""
    secret = folder / "cookie.secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    (folder / "hobbit.zone").write_text(HOBBIT + _KEYS + zone)
    config = folder / "lbdns.toml"
    server = f'plane = "{plane}"\n{server}'
    config.write_text(
        _CONFIG.format(
            server=server, cookies=cookies, rate_limit=rate_limit, tables=ZONE + pool_table("bilbo", "frodo", "gandalf")
        )
    )
    with running(*python("lbdns", "serve", "-c", str(config))) as served:
        served.until(lambda: "ready:" in served.errors, "ready")
        found = re.search(r"answering DNS on (\S+)", served.errors)
        assert found
        yield served, parse_endpoint(found[1], 0)


def run(name: str, *arguments: str) -> str:
    """Run a program, check that its exit status is 0, and return its output."""
    done = subprocess.run([program(name), *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{name} {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


@dataclass
class Reply:
    """A response as printed by dig or kdig."""

    text: str
    status: str = ""
    flags: frozenset[str] = frozenset()
    counts: dict[str, int] = field(default_factory=dict)
    edns: str = ""  # the line of the OPT record, with its version, flags and payload size
    options: dict[str, str] = field(default_factory=dict)  # by the name dig has for it
    #: section -> (owner, TTL, type, rdata)
    sections: dict[str, list[tuple[str, int, str, str]]] = field(default_factory=dict)

    def records(self, section: str) -> list[tuple[str, str, str]]:
        """Return the records of a section in order, without their TTLs."""
        return [(owner, rtype, rdata) for owner, _, rtype, rdata in self.sections.get(section, [])]

    @property
    def answer(self) -> list[tuple[str, str, str]]:
        return self.records("ANSWER")

    @property
    def cookie(self) -> str:
        """The cookie in hexadecimal, without dig's comments."""
        return self.options["COOKIE"].split()[0]


def dig(at: Endpoint, *arguments: str) -> Reply:
    """Ask with dig, once."""
    return read(run("dig", f"@{at.host}", "-p", str(at.port), "+tries=1", "+timeout=30", "+nocmd", *arguments))


def kdig(at: Endpoint, *arguments: str) -> str:
    return run("kdig", f"@{at.host}", "-p", str(at.port), "+retry=0", "+timeout=30", *arguments)


def drill(at: Endpoint, *arguments: str) -> str:
    return run("drill", "-p", str(at.port), f"@{at.host}", *arguments)


def exchange(at: Endpoint, wire: bytes, source: str = "127.0.0.1") -> bytes:
    """Send arbitrary bytes in one datagram, and return the response. Raises TimeoutError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        sock.bind((source, 0))
        sock.connect((at.host, at.port))
        sock.send(wire)
        return sock.recv(65535)


def read(text: str) -> Reply:
    """Parse the output of dig. If the output contains several responses, the last one is returned."""
    header = re.findall(r"status: (\w+)", text)
    assert header, text
    flags = re.findall(
        r"^;; flags:([^;]*); QUERY: (\d+), ANSWER: (\d+), AUTHORITY: (\d+), ADDITIONAL: (\d+)", text, re.M
    )
    reply = Reply(text, status=header[-1], flags=frozenset(flags[-1][0].split()))
    reply.counts = dict(zip(("QUERY", "ANSWER", "AUTHORITY", "ADDITIONAL"), map(int, flags[-1][1:]), strict=True))
    section = ""
    for line in text.splitlines():
        if found := re.match(r";; (\w+) (?:PSEUDO)?SECTION:", line):
            section = found[1]
        elif line.startswith("; EDNS:"):
            reply.edns = line.removeprefix("; EDNS: ")
        elif section == "OPT" and (found := re.match(r"; ([\w -]+?)[=:] ?(.*)", line)):
            reply.options[found[1]] = found[2]
        elif section and line and not line.startswith(";"):
            owner, ttl, _, rtype, rdata = line.split(None, 4)
            reply.sections.setdefault(section, []).append((owner, int(ttl), rtype, rdata))
    return reply
