"""Sends real packets through a veth pair between two network namespaces, to the program on one end."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pytest
from dnslib import DNSRecord

from lbdns.server.xdp import program_link
from lbdns.server.xdp.kernel_answers import KernelAnswers
from lbdns.server.xdp.kernel_errors import InterfaceBusyError, KernelError
from tests.answering.asking import client, make_query
from tests.answering.test_responder_fast_path import fixed
from tests.end_to_end.namespaces import DNS4, DNS6, Namespace, server_and_client
from tests.needs import needs, program
from tests.server.xdp.kernel_of_responder import kernel, publish

pytestmark = needs(programs=("ip",), root=True, namespaces=True, xdp=True)

T = TypeVar("T")
ROOT: Final = Path(__file__).parents[3]
NAME: Final = "best.hobbit"
QUERY: Final = make_query(NAME, payload=1232)
_NEW_NETWORK: Final = 0x40000000
_ETHTOOL: Final = 0x8946  # SIOCETHTOOL
_SET_CHECKSUMS: Final = 0x17  # ETHTOOL_STXCSUM


def within(namespace: Namespace, function: Callable[[], T]) -> T:
    """Call a function in a thread of its own, which is in the namespace."""
    results: list[T] = []
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            with open(f"/run/netns/{namespace.name}") as file:
                if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _NEW_NETWORK):
                    raise OSError(ctypes.get_errno(), "setns")
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _write_checksums() -> None:
    """Write checksums into packets, as packets from another machine have them."""
    setting = ctypes.create_string_buffer(struct.pack("=II", _SET_CHECKSUMS, 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _ETHTOOL, struct.pack("=16sQ16x", b"wire", ctypes.addressof(setting)))


@pytest.fixture
def wire() -> Iterator[tuple[Namespace, Namespace, int]]:
    """Yield the namespaces of a server and a client, and the index of the server's interface."""
    with server_and_client(()) as (server, client_side):
        within(client_side, _write_checksums)
        yield server, client_side, within(server, lambda: socket.if_nametoindex("wire"))


@contextmanager
def receiving(client_side: Namespace) -> Iterator[None]:
    """Attach a program that passes everything to the client's end, so that it receives what the server's driver sends.

    This is a peculiarity of veth devices.
    """
    with (
        kernel() as passing,
        closing(within(client_side, lambda: passing.attach(socket.if_nametoindex("wire"), generic=False))),
    ):
        yield


@contextmanager
def filled(server: Namespace, interface: int, member: int = 1) -> Iterator[KernelAnswers]:
    """Load a program that names one member at the server's addresses."""
    responder = fixed(member)
    for query in (QUERY, make_query(NAME, recurse=True)) * 2:
        responder.respond(query, client())
    mac = server.run("cat", "/sys/class/net/wire/address").stdout
    with kernel() as answers:
        publish(answers, responder, (member,))
        for host in (DNS4, DNS6):
            answers.publish_address(host, 53, interface, bytes.fromhex(mac.replace(":", "")))
        yield answers


def ask(client_side: Namespace, host: str, query: bytes = QUERY, timeout: float = 10.0) -> bytes:
    """Return the answer to a query. Raises TimeoutError."""

    def send() -> bytes:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(timeout)
            sock.connect((host, 53))
            sock.send(query)
            return sock.recv(4096)

    return within(client_side, send)


def is_silent(client_side: Namespace) -> bool:
    """Return whether the server's kernel reports that no socket has the port."""
    try:
        ask(client_side, DNS4)
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("generic", [False, True])
def test_the_kernel_answers_over_ipv4_and_ipv6(wire: tuple[Namespace, Namespace, int], generic: bool) -> None:
    server, client_side, interface = wire
    expected = fixed(1).respond_slowly(QUERY, client())
    with filled(server, interface) as answers, receiving(client_side):
        link = within(server, lambda: answers.attach(interface, generic=generic))
        with closing(link):
            for host in (DNS4, DNS6):
                assert ask(client_side, host) == expected
            question = DNSRecord.question(NAME, "A")
            record = DNSRecord.parse(ask(client_side, DNS6, question.pack()))
            assert record.header.id == question.header.id
            assert [str(rr.rdata) for rr in record.rr] == ["frodo.hobbit.", "127.0.0.17"]
            assert answers.totals()["answered"] == 3
        assert is_silent(client_side), "the program is detached with its link"


def test_other_packets_reach_the_sockets(wire: tuple[Namespace, Namespace, int]) -> None:
    server, client_side, interface = wire
    with filled(server, interface) as answers:
        with closing(within(server, lambda: answers.attach(interface))), within(server, _bound) as sock:
            sock.settimeout(10.0)
            asker = threading.Thread(target=ask, args=(client_side, DNS4, b"not a query"))
            asker.start()
            message, peer = sock.recvfrom(512)
            assert message == b"not a query"
            sock.sendto(b"heard", peer)
            asker.join()
        assert answers.totals()["passed"] == 1


def _bound(host: str = DNS4) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((host, 53))
    return sock


def test_another_program_is_never_replaced(wire: tuple[Namespace, Namespace, int]) -> None:
    server, client_side, interface = wire
    with filled(server, interface) as first, filled(server, interface, 0) as second:
        with closing(within(server, lambda: first.attach(interface))):
            before = ask(client_side, DNS4)
            for generic in (False, True):
                with pytest.raises(InterfaceBusyError, match="another XDP program is attached to wire"):
                    within(server, partial(second.attach, interface, generic=generic))
            assert ask(client_side, DNS4) == before
        with closing(within(server, lambda: second.attach(interface))):
            assert ask(client_side, DNS4) != before


def test_a_new_program_takes_over_without_a_gap(wire: tuple[Namespace, Namespace, int]) -> None:
    """The descriptor of the link may come from another process; the program stays as long as one is open."""
    server, client_side, interface = wire
    with filled(server, interface) as old, filled(server, interface, 0) as new:
        with closing(within(server, lambda: old.attach(interface))) as link:
            before = ask(client_side, DNS4)
            adopted = program_link.ProgramLink(os.dup(link.fileno()), interface)
            new.take_link(adopted)
        with closing(adopted):
            assert ask(client_side, DNS4) != before
            assert (old.totals()["answered"], new.totals()["answered"]) == (1, 1)
        assert is_silent(client_side)


def test_an_interface_that_is_removed(wire: tuple[Namespace, Namespace, int]) -> None:
    server, _, _ = wire
    server.run(program("ip"), "link", "add", "other", "type", "veth", "peer", "name", "peer")
    interface = int(within(server, lambda: socket.if_nametoindex("other")))
    with kernel() as answers, closing(within(server, lambda: answers.attach(interface))) as link:
        assert link.is_attached()
        server.run(program("ip"), "link", "delete", "other")
        assert not link.is_attached()


def test_the_program_ends_with_its_process(wire: tuple[Namespace, Namespace, int]) -> None:
    """SIGKILL leaves the process no time for anything."""
    server, _, interface = wire
    script = f"""
        from tests.server.xdp.kernel_of_responder import kernel
        with kernel() as answers:
            link = answers.attach({interface})
            print("attached", flush=True)
            input()
    """
    with subprocess.Popen(
        [*server.inside, sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "attached\n"
        assert "xdp" in server.run(program("ip"), "link", "show", "wire").stdout
        process.kill()
    assert "xdp" not in server.run(program("ip"), "link", "show", "wire").stdout


def test_the_loopback_and_unknown_interfaces_are_refused(wire: tuple[Namespace, Namespace, int]) -> None:
    server, _, interface = wire
    with kernel() as answers:
        with pytest.raises(KernelError, match="lo is the loopback interface"):
            within(server, lambda: answers.attach(1))
        with pytest.raises(KernelError, match="there is no interface with index 99"):
            within(server, lambda: answers.attach(99))
        link = program_link.ProgramLink(os.open("/dev/null", os.O_RDONLY), interface)
        with closing(link), pytest.raises(KernelError, match="cannot replace the XDP program"):
            answers.take_link(link)


QUESTION_HEAD: Final = b"\x12\x34" + bytes.fromhex("00000001000000000000")
ANSWER_HEAD: Final = bytes.fromhex("84000001000000000000")
TAIL: Final = bytes(range(256)) * 2


def questions_of_many_lengths() -> list[bytes]:
    return [bytes([n]) + b"a" * n + b"\0\0\x01\0\x01" for n in range(1, 59, 6)]


@pytest.mark.parametrize("generic", [False, True])
def test_answers_of_any_length_find_room_in_the_packet(wire: tuple[Namespace, Namespace, int], generic: bool) -> None:
    """Since Linux 6.8, a veth device leaves at most 63 bytes behind a packet, but 216 before it. The answer then begins
    further forward."""
    server, client_side, interface = wire
    with (
        filled(server, interface) as answers,
        receiving(client_side),
        closing(within(server, lambda: answers.attach(interface, generic=generic))),
    ):
        for length in (0, 8, 9, 15, 16, 37, 80, 120, 180):
            for question in questions_of_many_lengths():
                answers.withdraw_question(question)
                answers.publish_question(question, 0, [(ANSWER_HEAD, TAIL[:length])], None)
                for host in (DNS4, DNS6):
                    response = ask(client_side, host, QUESTION_HEAD + question)
                    assert response == QUESTION_HEAD[:2] + ANSWER_HEAD + question + TAIL[:length]
        assert answers.totals()["no_room"] == 0


@pytest.mark.parametrize("with_program", [False, True])
def test_each_query_over_a_veth_pair_is_answered(wire: tuple[Namespace, Namespace, int], with_program: bool) -> None:
    """By the kernel or by a socket, whether the client's end has an XDP program or not.

    A veth device loses what a native program sends if the other end has none.
    """
    server, client_side, interface = wire
    expected = Counter[str]()
    with (
        filled(server, interface) as answers,
        receiving(client_side) if with_program else nullcontext(),
        closing(within(server, lambda: answers.attach(interface))),
        echoing(server),
    ):
        for length in (37, 200, 300, 330, 360, 390, 420, 450, 496):
            for question in questions_of_many_lengths()[::3]:
                answers.withdraw_question(question)
                answers.publish_question(question, 0, [(ANSWER_HEAD, TAIL[:length])], None)
                query = QUESTION_HEAD + question
                whole = QUESTION_HEAD[:2] + ANSWER_HEAD + question + TAIL[:length]
                for host in (DNS4, DNS6):
                    by = {whole: "answered", query: "passed"}
                    expected[by[ask(client_side, host, query)]] += 1
        totals = answers.totals()
    assert expected["answered"] > 0
    assert expected == {name: totals[name] for name in expected}


@contextmanager
def echoing(server: Namespace) -> Iterator[None]:
    """Send each datagram that reaches a socket of the server back to its sender."""
    ended = threading.Event()

    def echo(sock: socket.socket) -> None:
        while not ended.is_set():
            with suppress(TimeoutError):
                message, sender = sock.recvfrom(512)
                sock.sendto(message, sender)

    with within(server, lambda: _bound(DNS4)) as four, within(server, lambda: _bound(DNS6)) as six:
        threads = [threading.Thread(target=echo, args=(sock,)) for sock in (four, six)]
        for sock, thread in zip((four, six), threads, strict=True):
            sock.settimeout(0.1)
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def test_an_interface_whose_mtu_is_too_small(wire: tuple[Namespace, Namespace, int]) -> None:
    server, _, interface = wire
    for mtu, fits in ((651, False), (652, True)):
        server.run(program("ip"), "link", "set", "wire", "mtu", str(mtu))
        with kernel() as answers:
            if fits:
                within(server, lambda: answers.attach(interface)).close()
            else:
                with pytest.raises(KernelError, match="the MTU of wire must be at least 652 bytes, not 651"):
                    within(server, lambda: answers.attach(interface))
