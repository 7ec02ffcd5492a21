"""Tests of reading listening sockets from /proc/net/tcp files of several kernels, and from the running kernel."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.webserver.listening_sockets import (
    NLM_F_DUMP,
    NLM_F_REQUEST,
    ListeningSocket,
    ListeningSocketReader,
    make_request,
    parse,
    parse_sock_diag,
    read_listening,
)
from tests.agent.fixtures import KERNELS, PROC, proc_file
from tests.needs import needs

ANY, ANY6 = bytes(4), bytes(16)
LOCAL, LOCAL6 = bytes((127, 0, 0, 1)), bytes(15) + b"\x01"


@pytest.mark.parametrize(
    ("kernel", "listeners"),
    [
        # With a half-open connection between, as before Linux 4.4
        (
            "2.6.32",
            [
                ListeningSocket(ANY, 22, 0, 8812),
                ListeningSocket(ANY, 80, 9, 9120),
                ListeningSocket(LOCAL, 3306, 0, 9002),
            ],
        ),
        ("3.10", [ListeningSocket(ANY, 22, 0, 16120), ListeningSocket(bytes((192, 168, 0, 10)), 8080, 2, 18822)]),
        ("4.19", [ListeningSocket(LOCAL, 80, 1, 30122), ListeningSocket(ANY, 22, 0, 30001)]),
        ("5.10", [ListeningSocket(LOCAL, 80, 0, 30122), ListeningSocket(ANY, 22, 0, 30001)]),
        ("6.1", [ListeningSocket(LOCAL, 80, 511, 30122), ListeningSocket(ANY, 22, 0, 30001)]),
    ],
)
def test_parse_tcp(kernel: str, listeners: list[ListeningSocket]) -> None:
    assert parse(proc_file(kernel, "net/tcp")) == listeners


@pytest.mark.parametrize(
    ("kernel", "listeners"),
    [
        ("2.6.32", [ListeningSocket(ANY6, 22, 0, 8814)]),
        ("3.10", [ListeningSocket(ANY6, 80, 129, 20934), ListeningSocket(LOCAL6, 3306, 0, 20001)]),
        ("6.1", [ListeningSocket(ANY6, 22, 0, 30003), ListeningSocket(LOCAL6, 443, 4, 30130)]),
        ("6.18", [ListeningSocket(LOCAL6, 8080, 0, 306739)]),
    ],
)
def test_parse_tcp6(kernel: str, listeners: list[ListeningSocket]) -> None:
    assert parse(proc_file(kernel, "net/tcp6")) == listeners


def test_this_kind_of_machine() -> None:
    found = parse(proc_file("6.18", "net/tcp"))
    assert [(listener.address[3], listener.port) for listener in found[:4]] == [
        (17, 8080), (1, 8053), (18, 8080), (16, 8080),
    ]  # fmt: skip
    assert len(found) == 6


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_way_without_sock_diag(kernel: str) -> None:
    expected = [*parse(proc_file(kernel, "net/tcp")), *parse(proc_file(kernel, "net/tcp6"))]
    sockets = ListeningSocketReader(str(PROC / kernel))
    assert not sockets.cheap
    assert sockets.read_all() == expected
    assert sockets.read_again(expected) is None


def test_without_either_it_is_absent(tmp_path: Path) -> None:
    with pytest.raises(MissingValueError, match="neither sock_diag nor"):
        ListeningSocketReader(str(tmp_path)).read_all()


def test_a_kernel_without_ipv6(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_bytes(proc_file("4.19", "net/tcp"))
    assert len(ListeningSocketReader(str(tmp_path)).read_all()) == 2


def test_the_table_of_connections_is_not_read(tmp_path: Path) -> None:
    listening = proc_file("4.19", "net/tcp").splitlines(keepends=True)
    connections = [listening[4]] * 5000
    (tmp_path / "tcp").write_bytes(b"".join([*listening, *connections]))
    text = read_listening(str(tmp_path / "tcp"))
    assert parse(text) == parse(b"".join(listening))
    assert len(text) < 10_000


@given(st.binary() | st.text("0123456789ABCDEF: \n").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert all(len(listener.address) in (4, 16) for listener in parse(text))


@given(st.binary(min_size=40, max_size=400))
def test_any_answer_is_read_or_an_os_error(answer: bytes) -> None:
    with contextlib.suppress(OSError):
        found, _ = parse_sock_diag(answer)
        assert len(found) <= len(answer) // 88


def test_an_error_of_the_kernel_is_raised() -> None:
    message = struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -errno.ENOENT) + bytes(16)
    with pytest.raises(OSError, match="No such file") as raised:
        parse_sock_diag(message)
    assert raised.value.errno == errno.ENOENT


def test_the_form_of_a_request() -> None:
    request = make_request(LOCAL, 80, NLM_F_REQUEST, 7)
    assert len(request) == 72
    assert struct.unpack_from("=IHHII", request) == (72, 20, NLM_F_REQUEST, 7, 0)
    assert request[16:18] == bytes((socket.AF_INET, socket.IPPROTO_TCP))
    assert request[24:26] == b"\x00\x50"
    assert request[28:32] == LOCAL
    assert struct.unpack_from("=H", make_request(ANY6, 0, NLM_F_REQUEST | NLM_F_DUMP, 1), 6) == (0x301,)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """Open a listening socket."""
    family = getattr(request, "param", socket.AF_INET)
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        listening.listen(50)
        yield listening


@pytest.mark.parametrize(
    "server", [socket.AF_INET, pytest.param(socket.AF_INET6, marks=needs(ipv6=True))], indirect=True
)
def test_connections_that_nobody_accepts_are_counted(server: socket.socket) -> None:
    inode = socket_inode(server)
    sockets = ListeningSocketReader()
    before = [listener for listener in sockets.read_all() if listener.inode == inode]
    assert [(listener.port, listener.queue) for listener in before] == [(server.getsockname()[1], 0)]
    with contextlib.ExitStack() as stack:
        for _ in range(7):
            stack.enter_context(socket.create_connection(server.getsockname()[:2]))
        again = sockets.read_again(before)
        assert again is not None
        assert [listener.queue for listener in again] == [7]
        assert [listener.queue for listener in sockets.read_all() if listener.inode == inode] == [7]
        path = "/proc/net/tcp" if server.family == socket.AF_INET else "/proc/net/tcp6"
        assert again[0] in parse(read_listening(path)), "both ways tell the same"


def test_a_socket_that_was_closed_or_replaced_is_noticed(server: socket.socket) -> None:
    sockets = ListeningSocketReader()
    before = [listener for listener in sockets.read_all() if listener.inode == socket_inode(server)]
    assert sockets.read_again(before) == before
    where = server.getsockname()
    server.close()
    assert sockets.read_again(before) is None
    with socket.create_server(where) as other:
        assert sockets.read_again(before) is None
        assert socket_inode(other) in {listener.inode for listener in sockets.read_all()}


def test_sockets_that_share_a_port_are_not_asked_for_by_it() -> None:
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(socket.create_server(("127.0.0.1", 0), reuse_port=True))
        two = stack.enter_context(socket.create_server(one.getsockname(), reuse_port=True))
        sockets = ListeningSocketReader()
        wanted = {socket_inode(one), socket_inode(two)}
        both = [listener for listener in sockets.read_all() if listener.inode in wanted]
        assert len(both) == 2
        assert sockets.read_again(both) is None


def socket_inode(opened: socket.socket) -> int:
    return os.fstat(opened.fileno()).st_ino
