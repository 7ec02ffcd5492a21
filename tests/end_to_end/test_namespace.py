"""Tests with a client machine whose only resolver is lbdns: the C library and programs accept lbdns's answers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.end_to_end.harness import Site, serving
from tests.end_to_end.namespaces import DNS4, DNS6, Namespace, server_and_client
from tests.end_to_end.process import Program, eventually, python, running
from tests.needs import needs

pytestmark = needs(programs=("ip", "getent", "curl", "ping", "dig"), root=True, namespaces=True)
HOSTS = {
    "bilbo": ("198.18.0.16", "fd00::16"),
    "frodo": ("198.18.0.17", "fd00::17"),
    "gandalf": ("198.18.0.18", "fd00::18"),
}
PORT = 8080


@dataclass(frozen=True)
class Net:
    """A server with lbdns on port 53, three web servers with agents, and a client whose only resolver is lbdns."""

    site: Site
    server: Namespace
    client: Namespace
    dns: Program

    def requests(self, transport: str) -> float:
        """Return the number of queries answered so far over ``transport``."""
        text = self.server.run("curl", "-s", f"http://{DNS4}:8053/metrics").stdout
        samples = re.findall(r"^lbdns_dns_requests_total\{(.*)\} (\S+)$", text, re.MULTILINE)
        return sum(float(value) for labels, value in samples if f'transport="{transport}"' in labels)

    def loads(self) -> set[str]:
        """Return the set of all members' current states."""
        text = self.server.run("curl", "-s", f"http://{DNS4}:8053/api/v1/status", check=False).stdout
        return set(re.findall(r'"state":\s*"(\w+)"', text))


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    addresses = [address for host in HOSTS.values() for address in host]
    site = Site(tmp_path_factory.mktemp("net"), HOSTS, DNS4, dns_port=53, report_port=7777, http_port=8053)
    site.write()
    with contextlib.ExitStack() as stack:
        server, client = stack.enter_context(server_and_client(addresses))
        both = ("--listen", f"{DNS4}:53", "--listen", f"[{DNS6}]:53")
        dns = stack.enter_context(serving(site, *both, inside=server.inside))
        for name, (four, six) in HOSTS.items():
            web = ("--name", name, "--listen", f"{four}:{PORT}", "--listen", f"[{six}]:{PORT}")
            stack.enter_context(running(*python("lbdns.demo.webserver", *web), inside=server.inside))
            agent = python(
                "lbdns_agent", "--collector", f"{DNS4}:7777", "--name", name, "--interval", "2", "--gateway", "off",
                "--key-file", str(site.agent_key_file(name)), "--server-status", f"http://{four}:{PORT}/server-status",
            )  # fmt: skip
            stack.enter_context(running(*agent, inside=server.inside))
        found = Net(site, server, client, dns)
        dns.until(lambda: found.loads() == {"usable"}, "all three report")
        yield found


RESOLVERS = {
    "IPv4, UDP": (f"nameserver {DNS4}", "search hobbit"),
    "IPv6, UDP": (f"nameserver {DNS6}", "search hobbit"),
    "IPv4, TCP": (f"nameserver {DNS4}", "search hobbit", "options use-vc"),
    "IPv6, TCP": (f"nameserver {DNS6}", "search hobbit", "options use-vc"),
}


@pytest.fixture(params=RESOLVERS)
def client(net: Net, request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """Yield the client with one of the resolver settings, then check that its queries used the expected transport."""
    net.client.resolv_conf(*RESOLVERS[request.param])
    transport = "tcp" if "TCP" in request.param else "udp"
    other = "udp" if transport == "tcp" else "tcp"
    before, before_other = net.requests(transport), net.requests(other)
    yield net.client
    assert net.requests(transport) > before
    assert net.requests(other) == before_other


def addresses_in(text: str) -> set[str]:
    return {line.split()[0] for line in text.splitlines()}


class TestClient:
    def test_getent_finds_both_addresses_of_a_member(self, client: Namespace) -> None:
        lines = client.run("getent", "ahosts", "best").stdout
        found = addresses_in(lines)
        members = {name for name, own in HOSTS.items() if found & set(own)}
        assert {":" in address for address in found} == {True, False}, "A and AAAA"
        assert found <= {address for name in members for address in HOSTS[name]}
        assert re.search(rf"\b({'|'.join(members)})\.hobbit\b", lines), "the name behind the alias"

    @pytest.mark.parametrize(("database", "family"), [("ahostsv4", 0), ("ahostsv6", 1)])
    @pytest.mark.parametrize("name", ["best", "best.hobbit", "BEST.Hobbit.", "weighted"])
    def test_each_family(self, client: Namespace, name: str, database: str, family: int) -> None:
        (address,) = addresses_in(client.run("getent", database, name).stdout)
        assert address in {own[family] for own in HOSTS.values()}

    def test_rotation(self, client: Namespace) -> None:
        found = [client.run("getent", "ahostsv4", "round.robin").stdout.split()[0] for _ in range(6)]
        assert sorted(found[:3]) == sorted(found[3:]) == sorted(four for four, _ in HOSTS.values())

    @pytest.mark.parametrize("family", ["-4", "-6"])
    def test_curl(self, client: Namespace, family: str) -> None:
        page = client.run("curl", "-sS", family, f"http://best.hobbit:{PORT}/").stdout
        assert re.search(r"<h1>(bilbo|frodo|gandalf)</h1>", page)
        assert f"You asked for best.hobbit:{PORT}" in page

    @pytest.mark.parametrize("words", [(), ("-4",), ("-6",)])
    def test_ping(self, client: Namespace, words: tuple[str, ...]) -> None:
        answer = client.run("ping", *words, "-c1", "-W30", "best").stdout
        found = re.search(r"\((198\.18\.0\.1[678]|fd00::1[678])\)", answer)
        assert found, answer
        assert words == () or (":" in found[1]) == (words == ("-6",))
        assert "1 received" in answer

    def test_a_name_that_is_not_there(self, client: Namespace) -> None:
        result = client.run("getent", "ahosts", "sauron.hobbit", check=False)
        assert (result.returncode, result.stdout) == (2, "")


def test_the_client_follows_the_load(net: Net) -> None:
    """After a client has sent work to a member, the next client's query for best is answered with another member."""
    net.client.resolv_conf(*RESOLVERS["IPv4, UDP"])
    (first,) = addresses_in(net.client.run("getent", "ahostsv4", "best").stdout)
    work = [f"http://{first}:{PORT}/work?ms=2000"] * 8
    with running(*net.client.inside, "curl", "-sS", "--parallel", "--parallel-immediate", *work):
        eventually(
            lambda: addresses_in(net.client.run("getent", "ahostsv4", "best").stdout) != {first}, "best is another"
        )


def test_signals_end_it_well(net: Net) -> None:
    assert net.dns.running
    assert "Traceback" not in net.dns.errors
