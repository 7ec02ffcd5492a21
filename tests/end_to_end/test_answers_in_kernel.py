"""Tests of answers in the kernel: a real server and a client in two network namespaces, connected by a veth pair."""

from __future__ import annotations

import json
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import dns.edns
import dns.flags
import dns.message
import pytest

from tests.end_to_end.harness import WEB, Site, serving
from tests.end_to_end.namespaces import DNS4, DNS6, Namespace, server_and_client
from tests.end_to_end.process import Program, eventually, python, running
from tests.needs import needs

pytestmark = needs(programs=("ip", "curl"), root=True, namespaces=True, xdp=True)
LINK = "wire"
MEMBERS = {"bilbo": ["198.18.0.16"], "frodo": ["198.18.0.17"], "gandalf": ["198.18.0.18"]}
#: Makes the client's end of a veth pair write checksums like a network card, because the program verifies them
WRITE_CHECKSUMS = """
import ctypes, fcntl, socket, struct
value = ctypes.create_string_buffer(struct.pack("II", 0x17, 0))  # ETHTOOL_STXCSUM
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(sock, 0x8946, struct.pack("16sP16x", b"wire", ctypes.addressof(value)))  # SIOCETHTOOL
"""
#: Attaches a program that never gets a lease, so it lets all packets pass
OTHER_PROGRAM = """
import signal, socket
from lbdns.server.xdp.kernel_answers import KernelAnswers, TableSizes
from lbdns.server.xdp.table_layouts import LimitRules
answers = KernelAnswers(TableSizes(1, 64, 1, 64, 64), LimitRules(0, 0, 24, 56), [(bytes(10), b"")] * 6)
link = answers.attach(socket.if_nametoindex("wire"))
print("attached", flush=True)
signal.pause()
"""
#: Sends queries (hexadecimal, one a line) from one socket, one after another, and prints the answers
ASK = """
import socket, sys
sock = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((sys.argv[1], 53))
sock.settimeout(float(sys.argv[2]) if sys.argv[2:] else 5)
for line in sys.stdin:
    sock.send(bytes.fromhex(line))
    try:
        print(sock.recv(4096).hex())
    except TimeoutError:
        if not sys.argv[3:]:
            raise
"""


@dataclass
class Net:
    """A server's namespace and a client's, and the server's files."""

    site: Site
    server: Namespace
    client: Namespace

    def ask(self, *queries: bytes, address: str = DNS4) -> list[bytes]:
        """Return the responses to queries from one socket of the client."""
        lines = "".join(f"{query.hex()}\n" for query in queries)
        found = self.client.run_with(lines, *python_code(ASK), address)
        return [bytes.fromhex(line) for line in found.splitlines()]

    def is_answered(self, query: bytes) -> bool:
        """Return whether a query is answered within a fifth of a second."""
        return bool(self.client.run_with(f"{query.hex()}\n", *python_code(ASK), DNS4, "0.2", "or nothing"))

    def document(self) -> dict[str, Any]:
        text = self.server.run("curl", "-s", f"http://{DNS4}:8053/api/v1/status", check=False).stdout
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document().get("server", {})
        return found

    def kernel_answers(self) -> int:
        kernel = self.status()["kernel"]
        return int(kernel["answers"]) if kernel else 0

    def answers_by_address(self) -> dict[str, int]:
        return {member["addresses"][0]: member["answers"] for member in self.document()["pools"][0]["members"]}

    def is_attached(self) -> bool:
        return "xdp" in self.server.run("ip", "link", "show", LINK).stdout


def python_code(code: str) -> tuple[str, ...]:
    return python("lbdns")[0], "-c", code


@contextmanager
def net_of(server: str = "", members: Sequence[str] = tuple(MEMBERS), more: str = "") -> Iterator[Net]:
    """Make the namespaces, and a configuration with these lines in the table ``server``, and ``more`` at the end."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o777)
        site = Site(
            folder,
            {name: MEMBERS[name] for name in members},
            DNS4,
            dns_port=53,
            report_port=7777,
            http_port=8053,
            master=None,
        )
        site.write(server=f'user = "nobody"\n{server}', pool='answer = "address"', web=f"{WEB}\n{more}")
        both = stack.enter_context(server_and_client([address for own in MEMBERS.values() for address in own]))
        both[1].run(*python_code(WRITE_CHECKSUMS))
        yield Net(site, *both)


@contextmanager
def answering(net: Net, *options: str) -> Iterator[Program]:
    """Run a server that listens on both addresses, and yield it once its pages respond."""
    listen = ("--listen", f"{DNS4}:53", "--listen", f"[{DNS6}]:53")
    with serving(net.site, *listen, *options, inside=net.server.inside) as server:
        server.until(net.status, "the status page responds")
        yield server


def query(name: str, rtype: str = "A", ident: int = 1, **options: object) -> bytes:
    message = dns.message.make_query(name, rtype, **options)  # type: ignore[arg-type]
    message.id = ident
    return message.to_wire()


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    """Namespaces for the tests that leave the configuration as it is."""
    with net_of(f'xdp = ["{LINK}"]') as found:
        yield found


@pytest.mark.parametrize("address", [DNS4, DNS6])
def test_the_kernel_answers_what_the_server_has_answered(net: Net, address: str) -> None:
    with answering(net) as server:
        assert net.is_attached()
        asked = [query("ns.hobbit", ident=number) for number in range(100)]
        responses = net.ask(*asked, address=address)
        assert {response[2:] for response in responses} == {responses[0][2:]}
        assert [response[:2] for response in responses] == [each[:2] for each in asked]
        eventually(lambda: net.kernel_answers() >= 98, "the kernel has answered")
        eventually(lambda: net.status()["types"] == {"A": 100}, "each answer is counted once")
        assert net.status()["queries"] == 100
        metrics = net.server.run("curl", "-s", f"http://{DNS4}:8053/metrics").stdout
        assert f"lbdns_dns_kernel_answers_total {net.kernel_answers()}\n" in metrics
        assert server.stop() == 0
        assert not net.is_attached()
        assert "Traceback" not in server.errors


def test_selections_of_the_kernel_are_counted(net: Net) -> None:
    with answering(net):
        responses = net.ask(*[query("round.robin.hobbit", ident=number) for number in range(301)])
        named = Counter(str(dns.message.from_wire(each).answer[0][0]) for each in responses)
        assert set(named.values()) <= {100, 101}, "in turn"
        eventually(lambda: net.answers_by_address() == named, "the status has the same counts")


def test_a_reload_leaves_no_old_answer() -> None:
    with net_of(f'xdp = ["{LINK}"]') as net, answering(net) as server:
        zone = net.site.folder / "hobbit.zone"
        for number in range(1, 4):
            old = zone.read_text()
            zone.write_text(f"{old}new{number} A 198.18.1.{number}\n".replace("ns A 127.0.0.", "ns A 127.0.1."))
            zone.write_text(zone.read_text().replace(f"127.0.1.{number}", f"127.0.1.{number + 1}"))
            before = net.kernel_answers()
            server.process.send_signal(signal.SIGHUP)
            server.until(lambda: server.errors.count("reload: done") == number, "the reload is done")  # noqa: B023
            found = net.ask(*[query("ns.hobbit")] * 50)
            assert {str(dns.message.from_wire(each).answer[0][0]) for each in found} == {f"127.0.1.{number + 1}"}
            eventually(lambda: net.kernel_answers() >= before + 48, "the kernel answers again")  # noqa: B023


def test_nothing_is_left_of_a_server_that_is_killed(net: Net) -> None:
    with answering(net) as server:
        net.ask(query("ns.hobbit"), query("ns.hobbit", ident=2))
        assert net.is_attached()
        server.process.send_signal(signal.SIGKILL)
        server.wait()
        eventually(lambda: not net.is_attached(), "the link is gone with its process", 2.0)
    with answering(net):
        assert net.is_attached()


def test_the_lease_of_a_server_that_hangs_ends(net: Net) -> None:
    with answering(net) as server:
        net.ask(*[query("ns.hobbit", ident=number) for number in range(5)])
        server.process.send_signal(signal.SIGSTOP)
        try:
            assert net.ask(query("ns.hobbit")), "the kernel still answers"
            eventually(lambda: not net.is_answered(query("ns.hobbit")), "the lease has ended", 6.0)
        finally:
            server.process.send_signal(signal.SIGCONT)
        eventually(lambda: net.is_answered(query("ns.hobbit")), "it has been renewed")


def test_another_program_on_the_interface_stays_there(net: Net) -> None:
    with running(*python_code(OTHER_PROGRAM), inside=net.server.inside) as other:
        other.until(lambda: other.output, "it is attached")
        with answering(net) as server:
            assert "[server] xdp: wire: another XDP program is attached" in server.errors
            assert len(net.ask(*[query("ns.hobbit")] * 5)) == 5
            (interface,) = net.status()["kernel"]["interfaces"]
            assert not interface["answers"]
            assert "another XDP program" in interface["fault"]
            assert server.stop() == 0
        assert net.is_attached(), "the other program"


def test_a_take_over_hands_the_link_over(net: Net) -> None:
    with answering(net) as old:
        net.ask(*[query("ns.hobbit", ident=number) for number in range(10)])
        eventually(lambda: net.kernel_answers() >= 8, "the kernel answers")
        links: list[str] = []
        with answering(net, "--take-over") as new:
            while old.running:
                assert len(net.ask(*[query("ns.hobbit", ident=number) for number in range(20)])) == 20
                links.append(net.server.run("ip", "link", "show", LINK).stdout)
            assert old.wait() == 0, old.errors
            assert all("prog/xdp" in text for text in links)
            before = net.kernel_answers()
            net.ask(*[query("ns.hobbit", ident=number) for number in range(50)])
            eventually(lambda: net.kernel_answers() >= before + 48, "the kernel answers from the new tables")
            assert net.is_attached()
            assert new.stop() == 0
        assert not net.is_attached()


def test_after_a_take_over_that_fails_the_old_program_answers(net: Net) -> None:
    queries = [query("ns.hobbit", ident=number) for number in range(50)]
    stalled = python("tests.server.control.stalled_take_over", "serve", "-c", str(net.site.config), "--take-over")
    with answering(net) as old:
        net.ask(*queries)
        with running(*stalled, "--listen", f"{DNS4}:53", inside=net.server.inside) as new:
            new.until(lambda: "the take-over stalls" in new.errors, "it has changed the link over to its program")
            new.process.send_signal(signal.SIGKILL)
            new.wait()
        old.until(lambda: "this server keeps running" in old.errors, "the old server knows it")
        before = net.kernel_answers()
        net.ask(*queries)
        eventually(lambda: net.kernel_answers() >= before + 48, "the kernel answers from the old tables")
        assert net.is_attached()


def mixed_queries(count: int) -> list[bytes]:
    """Return queries of all kinds that resolvers send, and of some that they do not."""
    rng = Random(21)
    names = ["ns", "bilbo", "BilBo", "round.robin", "nowhere", "a.b.c", "best", "@"]
    found: list[bytes] = []
    for _ in range(count):
        name = f"{rng.choice(names)}.hobbit".removeprefix("@.")
        flags = rng.choice([0, 0x100, 0x120, 0x110, 0x2800, 0x40])
        message = dns.message.make_query(name, rng.choice(["A", "AAAA", "SOA", "NS", "TXT", "MX"]), flags=flags)
        if rng.random() < 0.7:
            options: list[dns.edns.Option] = rng.choice(
                [
                    [],
                    [],
                    [],
                    [dns.edns.ECSOption("192.0.2.0", 24)],
                    [dns.edns.GenericOption(dns.edns.OptionType.NSID, b"")],
                ]
            )
            flags = rng.choice([0, dns.flags.DO])
            message.use_edns(0, flags, rng.choice([512, 1232, 4096, 700]), options=options)
        message.id = rng.randrange(65536)
        wire = message.to_wire()
        found.append(wire + b"x" if rng.random() < 0.02 else wire)
    return found


def test_20_000_mixed_queries_get_the_same_bytes() -> None:
    """The same as without the kernel; one member, so that the order of selections does not matter."""
    asked = mixed_queries(20_000)
    limits = "[rate_limit]\nresponses_per_second = 0\n"
    found = []
    for server in ("", f'xdp = ["{LINK}"]'):
        with net_of(server, ["bilbo"], limits) as one, answering(one):
            found.append(one.ask(*asked))
            share = one.kernel_answers() / len(asked)
    assert found[0] == found[1]
    assert share > 0.15, "the kernel has answered many of them"
