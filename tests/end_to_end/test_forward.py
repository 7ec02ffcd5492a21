"""Tests of forwarding with a real authoritative server, and with a client that has no other resolver."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import pytest

from lbdns_tools.free_ports import free_ports
from tests.end_to_end.harness import Site, dig, new_site, serving
from tests.end_to_end.namespaces import CLIENT4, CLIENT6, DNS4, DNS6, Namespace, server_and_client
from tests.end_to_end.process import PATIENCE, Program, python, running
from tests.needs import needs, program

#: A zone of somebody else's; what lbdns says of it can only come from there
EXAMPLE: Final = """\
$ORIGIN example.org.
$TTL 300
@     SOA   ns host 1 3600 900 604800 60
@     NS    ns
ns    A     192.0.2.1
www   A     192.0.2.80
www   AAAA  2001:db8::80
cdn   CNAME www
""" + "".join(f'large TXT "{number} {"x" * 90}"\n' for number in range(30))
OUT: Final = "out CNAME cdn.example.org.\n"


def nsd(folder: Path, address: str, port: int) -> Sequence[str]:
    """Write the files of an NSD server for the zone, and return the command that runs it."""
    folder.mkdir(exist_ok=True)
    (folder / "example.zone").write_text(EXAMPLE)
    (folder / "nsd.conf").write_text(
        f'server:\n  ip-address: {address}@{port}\n  username: ""\n  database: ""\n  zonesdir: "{folder}"\n'
        f'  pidfile: "{folder}/nsd.pid"\n  xfrdfile: "{folder}/xfrd.state"\n  zonelistfile: "{folder}/zone.list"\n'
        f'  xfrdir: "{folder}"\n  cookie-secret-file: ""\n  server-count: 1\n  rrl-ratelimit: 0\n'
        'remote-control:\n  control-enable: no\n'
        'zone:\n  name: example.org\n  zonefile: example.zone\n'
    )  # fmt: skip
    return program("nsd"), "-d", "-c", str(folder / "nsd.conf")


def resolves(address: str, port: int) -> bool:
    query = dns.message.make_query("www.example.org", "A")
    try:
        return dns.query.udp(query, address, 0.5, port).rcode() == dns.rcode.NOERROR
    except (OSError, dns.exception.Timeout):
        return False


def write(site: Site, upstreams: Sequence[str], allow: Sequence[str]) -> None:
    """Write the site's files, with forwarding and with an alias to an external name."""
    site.write()
    zone = site.folder / "hobbit.zone"
    zone.write_text(zone.read_text() + OUT)
    with site.config.open("a") as config:
        config.write(f"[forward]\nupstream = {list(upstreams)}\nallow = {list(allow)}\n")


@dataclass(frozen=True)
class Forwarding:
    site: Site
    server: Program
    upstream: Program

    def ask(self, name: str, rdtype: str = "A", source: str = "127.0.0.1", tcp: bool = False) -> dns.message.Message:
        query = dns.message.make_query(name, rdtype)
        query.flags = dns.flags.RD
        transport = dns.query.tcp if tcp else dns.query.udp
        return transport(query, self.site.address, 10, self.site.dns_port, source=source)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forwarding]:
    """Run a server that forwards queries, only from one loopback network, to two upstreams (one absent, one NSD)."""
    folder = tmp_path_factory.mktemp("forward")
    gone, port = free_ports(2)
    site = new_site(folder, {"bilbo": ["127.0.0.16"]})
    write(site, [f"127.0.0.1:{gone}", f"127.0.0.1:{port}"], ["127.0.0.0/24"])
    with running(*nsd(folder / "nsd", "127.0.0.1", port)) as upstream:
        upstream.until(lambda: resolves("127.0.0.1", port), "nsd answers")
        with serving(site) as server:
            yield Forwarding(site, server, upstream)


@needs(programs=("nsd", "dig"))
class TestBeforeNsd:
    def test_dig(self, net: Forwarding) -> None:
        text = dig(net.site, "www.example.org", "A")
        assert "status: NOERROR" in text
        assert "192.0.2.80" in text
        assert "flags: qr rd ra;" in text
        assert "WARNING" not in text

    @pytest.mark.parametrize("tcp", [False, True])
    def test_names_types_and_denials(self, net: Forwarding, tcp: bool) -> None:
        assert str(net.ask("cdn.example.org", "AAAA", tcp=tcp).answer[1][0]) == "2001:db8::80"
        assert net.ask("nowhere.example.org", tcp=tcp).rcode() == dns.rcode.NXDOMAIN
        empty = net.ask("www.example.org", "MX", tcp=tcp)
        assert (empty.rcode(), empty.answer, len(empty.authority)) == (dns.rcode.NOERROR, [], 1)
        assert net.ask("elsewhere.example", tcp=tcp).rcode() == dns.rcode.REFUSED, "NSD says so"

    def test_what_is_too_long_for_udp_comes_over_tcp(self, net: Forwarding) -> None:
        assert net.ask("large.example.org", "TXT").flags & dns.flags.TC
        assert len(net.ask("large.example.org", "TXT", tcp=True).answer[0]) == 30
        text = dig(net.site, "large.example.org", "TXT")
        assert "Truncated, retrying in TCP mode" in text
        assert "ANSWER: 30" in text

    def test_our_own_names_and_an_alias_from_ours_to_theirs(self, net: Forwarding) -> None:
        assert str(net.ask("best.hobbit").answer[-1][0]) == "127.0.0.16"
        assert [str(rrset.name) for rrset in net.ask("out.hobbit").answer] == [
            "out.hobbit.", "cdn.example.org.", "www.example.org.",
        ]  # fmt: skip

    @pytest.mark.parametrize("tcp", [False, True])
    @pytest.mark.parametrize("rdtype", ["A", "ANY", "TXT", "NS"])
    def test_others_get_nothing(self, net: Forwarding, rdtype: str, tcp: bool) -> None:
        for name in ("www.example.org", "example.org", "."):
            message = net.ask(name, rdtype, "127.0.7.7", tcp)
            assert (message.rcode(), message.flags & dns.flags.RA) == (dns.rcode.REFUSED, 0)
        assert [str(rrset.name) for rrset in net.ask("out.hobbit", "A", "127.0.7.7", tcp).answer] == ["out.hobbit."]

    def test_it_is_counted(self, net: Forwarding) -> None:
        before = net.site.metric("lbdns_dns_forward_answered_total")
        by_rcode = net.site.metric("lbdns_dns_responses_total", zone="", rcode="NXDOMAIN")
        net.ask("nowhere.example.org")
        net.ask("nowhere.example.org", source="127.0.7.7")
        assert net.site.metric("lbdns_dns_forward_answered_total") == before + 1
        assert net.site.metric("lbdns_dns_responses_total", zone="", rcode="NXDOMAIN") == by_rcode + 1

    def test_nothing_went_wrong(self, net: Forwarding) -> None:
        assert net.server.running
        assert "Traceback" not in net.server.errors


@needs(programs=("nsd",))
def test_the_upstream_goes_and_comes_back(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    site = new_site(tmp_path, {"bilbo": ["127.0.0.16"]})
    write(site, [f"127.0.0.1:{port}"], ["127.0.0.1"])
    command = nsd(tmp_path / "nsd", "127.0.0.1", port)

    def rcode() -> dns.rcode.Rcode:
        query = dns.message.make_query("www.example.org", "A")
        return dns.query.udp(query, site.address, PATIENCE, site.dns_port).rcode()

    with serving(site):
        for _ in range(2):
            assert rcode() == dns.rcode.SERVFAIL
            with running(*command) as upstream:
                upstream.until(lambda: rcode() == dns.rcode.NOERROR, "the upstream is found")


def _is_all(said: Callable[[], set[tuple[int, bool]]], expected: tuple[int, bool]) -> bool:
    return said() == {expected}


@needs(programs=("nsd",))
@pytest.mark.parametrize("workers", [1, 2])
def test_a_reload_turns_it_on_and_off(tmp_path: Path, workers: int) -> None:
    (port,) = free_ports(1)
    site = new_site(tmp_path, {"bilbo": ["127.0.0.16"]})

    def said(count: int = 8) -> set[tuple[int, bool]]:
        """Return the RCODE and RA bit of so many responses that every process sends some of them."""
        query = dns.message.make_query("www.example.org", "A")
        found = [dns.query.udp(query, site.address, PATIENCE, site.dns_port) for _ in range(count)]
        return {(response.rcode(), bool(response.flags & dns.flags.RA)) for response in found}

    site.write(server=f"workers = {workers}")
    off = site.config.read_text()
    on = f'{off}[forward]\nupstream = "127.0.0.1:{port}"\nallow = "127.0.0.1"\n'
    with running(*nsd(tmp_path / "nsd", "127.0.0.1", port)) as upstream, serving(site) as server:
        upstream.until(lambda: resolves("127.0.0.1", port), "nsd answers")
        for text, expected in ((off, (5, False)), (on, (0, True)), (off, (5, False))):
            site.config.write_text(text)
            server.process.send_signal(signal.SIGHUP)
            server.until(partial(_is_all, said, expected), f"{expected} from every process")
        assert "Traceback" not in server.errors


def test_it_will_not_ask_itself(tmp_path: Path) -> None:
    site = new_site(tmp_path, {"bilbo": ["127.0.0.16"]})
    (port,) = free_ports(1)
    write(site, [f"127.0.0.1:{port}"], ["127.0.0.1"])
    listening = python("lbdns", "serve", "-c", str(site.config), "--listen", f"0.0.0.0:{port}")
    with running(*listening) as server:
        assert server.wait() == 2
        assert "queries would loop forever" in server.errors


def getent(client: Namespace, database: str, name: str) -> str:
    """Return the output of getent, which is empty if the name is not found."""
    return client.run("getent", database, name, check=False).stdout


@needs(programs=("nsd", "ip", "getent", "dig"), root=True, namespaces=True)
def test_a_machine_that_knows_no_other_resolver(tmp_path: Path) -> None:
    """Tests of getent with only lbdns in resolv.conf: local and other names, and a local alias for an external name."""
    (port,) = free_ports(1)
    site = Site(tmp_path, {"bilbo": ("198.18.0.16", "fd00::16")}, DNS4, dns_port=53, report_port=7777, http_port=8053)
    write(site, [f"127.0.0.1:{port}"], [CLIENT4, CLIENT6])
    with contextlib.ExitStack() as stack:
        server, client = stack.enter_context(server_and_client(["198.18.0.16", "fd00::16"]))
        stack.enter_context(running(*nsd(tmp_path / "nsd", "127.0.0.1", port), inside=server.inside))
        listen = ("--listen", f"{DNS4}:53", "--listen", f"[{DNS6}]:53")
        lbdns = stack.enter_context(serving(site, *listen, inside=server.inside))
        for resolver in (f"nameserver {DNS4}", f"nameserver {DNS6}"):
            client.resolv_conf(resolver)
            lbdns.until(lambda: "192.0.2.80" in getent(client, "ahosts", "www.example.org"), "a forwarded name")
            assert "2001:db8::80" in getent(client, "ahostsv6", "www.example.org")
            assert "198.18.0.16" in getent(client, "ahosts", "best.hobbit")
            found = getent(client, "ahostsv4", "out.hobbit")
            assert "192.0.2.80" in found
            assert "www.example.org" in found, "the name at the end of the aliases"
        client.resolv_conf(f"nameserver {DNS4}", "options use-vc")
        assert "192.0.2.80" in getent(client, "ahostsv4", "cdn.example.org")
        # From the server's own addresses nobody may
        refused = server.run("dig", f"@{DNS4}", "www.example.org").stdout
        assert "status: REFUSED" in refused
        assert "recursion requested but not available" in refused
