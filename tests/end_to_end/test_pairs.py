"""The A and AAAA answers of a lookup name the same member, with real resolvers and whatever was queried before.

``pytest -s tests/end_to_end/test_pairs.py`` prints the rows of the table in docs/background/pairs.md.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.harness import Site, serving
from tests.end_to_end.namespaces import DNS4, Namespace, server_and_client
from tests.end_to_end.process import Program, running
from tests.end_to_end.protocol import PLANES
from tests.end_to_end.resolvers import RESOLVED, RESOLVERS, Resolver
from tests.needs import needs, program

pytestmark = needs(programs=("ip",), root=True, namespaces=True)
MEMBERS: Final = {f"web{last}": (f"198.18.0.{last}", f"fd00::{last}") for last in (16, 17, 18, 19)}
OWNERS: Final = {address: member for member, both in MEMBERS.items() for address in both}
NAME: Final = "best.hobbit"
NUMBER: Final = 100  # lookups
ROTATING: Final = "round.robin.hobbit"
#: Lookups that may find two members if nothing else is queried meanwhile
FEW: Final = NUMBER // 20
#: The same if another program sends queries all the time, or if a busy machine's delays alone can separate queries
#: (nearly all lookups find two members if pairs do not find each other again)
MORE: Final = 2 * NUMBER // 5
#: Sends lone queries: type, number, pause in seconds
LONE: Final = """
import socket, sys, time
from tests.answering.asking import make_query
address, name, rtype, number, pause = sys.argv[1:]
for ident in range(int(number)):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(30)
        sock.connect((address, 53))
        sock.send(make_query(name, rtype, ident=ident % 65536, recurse=True))
        sock.recv(4096)
    print(ident, flush=True)
    time.sleep(float(pause))
"""
ENDLESS: Final = "1000000000"


@dataclass(frozen=True)
class Net:
    client: Namespace
    folder: Path  # with the program of lookups.c for musl

    def found(self, resolver: Resolver, name: str) -> list[list[str]]:
        """Look ``name`` up NUMBER times, and return the addresses that each lookup found."""
        lines = self.client.run(*resolver.lookups(self.folder), name, str(NUMBER), "0").stdout.splitlines()
        assert len(lines) == NUMBER, "no lookup failed"
        found = [line.split() for line in lines]
        assert sum(len(addresses) == 2 for addresses in found) >= NUMBER - FEW, "an A and an AAAA record each"
        return found

    def separated(self, resolver: Resolver) -> int:
        """Look NAME up, and return how many lookups found the addresses of several members."""
        return sum(len({OWNERS[address] for address in addresses}) > 1 for addresses in self.found(resolver, NAME))

    def lone(self, resolver: Resolver, rtype: str, number: str = "1") -> tuple[str, ...]:
        return sys.executable, "-c", LONE, resolver.address, NAME, rtype, number, "0.0137"

    @contextlib.contextmanager
    def beside(self, *command: str) -> Iterator[Program]:
        """Run a program in the client's namespace, and wait for its first line."""
        with running(*command, inside=self.client.inside) as other:
            other.until(lambda: other.output, "the other program has been answered")
            yield other


@pytest.fixture(scope="module", params=PLANES)
def net(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    folder = tmp_path_factory.mktemp("pairs")
    site = Site(folder, MEMBERS, DNS4, dns_port=53, report_port=7777, http_port=8053)
    site.write(server=f'plane = "{request.param}"')
    with contextlib.ExitStack() as stack:
        addresses = [address for both in MEMBERS.values() for address in both]
        server, client = stack.enter_context(server_and_client(addresses))
        dns = stack.enter_context(serving(site, inside=server.inside))
        look_up = (sys.executable, "-c", LONE, DNS4, "ns.hobbit", "A", "1", "0")
        dns.until(lambda: client.run(*look_up, check=False).stdout, "lbdns answers")
        yield Net(client, folder)


@pytest.mark.parametrize(
    "resolver", [pytest.param(one, id=one.name, marks=needs(programs=one.programs)) for one in RESOLVERS]
)
def test_pairs(net: Net, resolver: Resolver, tmp_path: Path) -> None:
    if resolver.name == "systemd-resolved" and not Path(RESOLVED).exists():
        pytest.skip("systemd-resolved is not installed; its package changes the machine's resolv.conf")
    if resolver.library == "musl":
        source = str(Path(__file__).with_name("lookups.c"))
        build = (program("musl-gcc"), "-static", "-o", str(net.folder / "lookups"), source)
        subprocess.run(build, check=True, capture_output=True, timeout=600)
    tmp_path.chmod(0o755)  # for servers that run as another user
    with resolver.serving(net.client, tmp_path):
        found = {"nothing": net.separated(resolver)}
        for rtype in ("A", "AAAA"):
            net.client.run(*net.lone(resolver, rtype))
            found[f"one {rtype}"] = net.separated(resolver)
        for rtype in ("A", "AAAA"):
            with net.beside(*net.lone(resolver, rtype, ENDLESS)):
                found[f"{rtype} all the time"] = net.separated(resolver)
        with net.beside(*resolver.lookups(net.folder), NAME, ENDLESS, "0.005"):
            found["lookups all the time"] = net.separated(resolver)
    print(f"\n| {resolver.name} | {' | '.join(map(str, found.values()))} |")
    quiet, beside = list(found.values())[:3], list(found.values())[3:]
    assert max(quiet) <= (MORE if resolver.alternates else FEW), found
    assert max(beside) <= MORE, found


@pytest.mark.parametrize("name", ["glibc", pytest.param("dnsmasq", marks=needs(programs=("dnsmasq",)))])
def test_round_robin_rotates_by_lookup(net: Net, name: str, tmp_path: Path) -> None:
    # If each query counted, A queries would reach only every second member of an even number of members
    (resolver,) = (one for one in RESOLVERS if one.name == name)
    with resolver.serving(net.client, tmp_path):
        lookups = net.found(resolver, ROTATING)
    by_type = [
        Counter(OWNERS[one] for found in lookups for one in found if (":" in one) == is_six) for is_six in (0, 1)
    ]
    print(f"\n{name}: {by_type}")
    for counts in by_type:
        assert all(abs(counts[member] - NUMBER / len(MEMBERS)) <= FEW for member in MEMBERS), counts
