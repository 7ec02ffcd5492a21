"""Tests of the documented path of a query: the files whose code runs, in order, from the UDP socket to the response."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import dns.edns
import dns.message
import dns.rcode
import pytest

import lbdns
from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.responder import DeferredAnswer, Responder
from lbdns.counting.response_times import ResponseTimes
from lbdns.server.transport.udp import UdpServer
from lbdns.sockets.dns_sockets import open_udp
from lbdns_shared.endpoint import Endpoint
from tests.answering.asking import make_query
from tests.answering.configured import SECRET
from tests.answering.farms import hobbit

MOST_FILES = 10  # that a reader can keep in mind
ROOT = Path(lbdns.__file__).parent.parent
OURS = tuple(str(ROOT / folder) + "/" for folder in ("lbdns", "collector", "agent"))
SENDING = frozenset(("sendto", "sendmsg"))


class Walk:
    """Records function calls (with ``sys.setprofile``) until the response is sent."""

    def __init__(self) -> None:
        self.files: list[str] = []  # in the order of the first call
        self.callbacks: list[str] = []  # calls from a file into one that waits for it
        self.sent = 0
        self._stack: list[str | None] = []

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__name__ in SENDING:
            self.sent += 1
        elif event == "call" and not self.sent:
            self._call(frame)
        elif event == "return" and self._stack:
            self._stack.pop()

    def _call(self, frame: FrameType) -> None:
        path = frame.f_code.co_filename
        name = path.removeprefix(f"{ROOT}/") if path.startswith(OURS) else None
        if name is not None:
            caller = next((file for file in reversed(self._stack) if file), name)
            if name != caller and name in self._stack:
                self.callbacks.append(f"{caller} -> {name}: {frame.f_code.co_name}")
            if name not in self.files:
                self.files.append(name)
        self._stack.append(name)


class Asked:
    """A UDP server and a client on the loopback, without an event loop."""

    def __init__(self, sock: socket.socket, client: socket.socket) -> None:
        self.responder = Responder(AnswerTable(hobbit()), (SECRET,))
        self.server = UdpServer(sock, self.responder, ResponseTimes())
        self._client = client
        client.connect(("127.0.0.1", self.server.endpoint.port))
        client.settimeout(60)

    def ask(self, query: bytes) -> tuple[dns.message.Message, Walk]:
        self._client.send(query)
        walk = Walk()
        sys.setprofile(walk.profile)
        try:
            self.server._drain()
        finally:
            sys.setprofile(None)
        return dns.message.from_wire(self._client.recv(4096)), walk


@contextmanager
def serving(host: str) -> Iterator[Asked]:
    with open_udp(Endpoint(host, 0)) as sock, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        yield Asked(sock, client)


def with_cookie(name: str, cookie: bytes) -> bytes:
    options: list[dns.edns.Option] = [dns.edns.CookieOption(cookie[:8], cookie[8:])]
    return dns.message.make_query(name, "A", use_edns=0, payload=1232, options=options).to_wire()


def server_cookie(asked: Asked) -> bytes:
    """Return a valid cookie that is dated by the responder's clock."""
    response, _ = asked.ask(with_cookie("hobbit", b"a client"))
    (option,) = response.options
    assert isinstance(option, dns.edns.CookieOption)
    return bytes(option.client + option.server)


QUERIES = ["plain", "EDNS", "client cookie", "valid cookie"]


def query_for(asked: Asked, name: str, form: str) -> bytes:
    if form == "plain":
        return make_query(name)
    if form == "EDNS":
        return dns.message.make_query(name, "A", use_edns=0, payload=1232).to_wire()
    return with_cookie(name, b"a client" if form == "client cookie" else server_cookie(asked))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("form", QUERIES)
@pytest.mark.parametrize(
    ("name", "rcode"), [("best.hobbit", "NOERROR"), ("gandalf.hobbit", "NOERROR"), ("nowhere.hobbit", "NXDOMAIN")]
)
def test_slow_path(name: str, rcode: str, form: str, host: str) -> None:
    with serving(host) as asked:
        response, walk = asked.ask(query_for(asked, name, form))
    assert dns.rcode.to_text(response.rcode()) == rcode
    assert walk.sent == 1
    assert "lbdns/answering/query_reader.py" in walk.files
    assert walk.callbacks == []
    assert len(walk.files) <= MOST_FILES, walk.files


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("form", QUERIES)
@pytest.mark.parametrize("name", ["best.hobbit", "gandalf.hobbit"])
def test_fast_path(name: str, form: str, host: str) -> None:
    with serving(host) as asked:
        query = query_for(asked, name, form)
        asked.ask(query)
        response, walk = asked.ask(b"id" + query[2:])
    assert response.answer
    assert walk.sent == 1
    assert "lbdns/answering/query_reader.py" not in walk.files
    assert walk.callbacks == []
    assert len(walk.files) <= MOST_FILES // 2, walk.files


def test_the_walk_shown_in_the_documentation() -> None:
    with serving("127.0.0.1") as asked:
        query = query_for(asked, "best.hobbit", "client cookie")
        slow, fast = (asked.ask(ident + query[2:])[1].files for ident in (b"a ", b"b "))
    transport, answering = "lbdns/server/transport", "lbdns/answering"
    assert fast == [f"{transport}/udp.py"] + [
        f"{answering}/{name}.py" for name in ("responder", "rate_limiter", "cookies", "member_selection")
    ]
    assert slow == [f"{transport}/udp.py"] + [
        f"{answering}/{name}.py"
        for name in (
            "responder", "rate_limiter", "query_reader", "edns", "cookies", "answer_table", "zone_lookup",
            "message_writer", "member_selection",
        )
    ]  # fmt: skip


def test_a_callback_is_found() -> None:
    walk = Walk()
    with serving("127.0.0.1") as asked:
        asked._client.send(make_query("best.hobbit"))

        def respond_by_callback(query: bytes, client: Any, transport: int = 0) -> bytes | DeferredAnswer | None:
            asked.responder.sheds = lambda: bool(asked.server._unread(OSError("called back"), 1))
            return asked.responder.respond(query, client, transport)

        asked.server._respond = respond_by_callback
        sys.setprofile(walk.profile)
        try:
            asked.server._drain()
        finally:
            sys.setprofile(None)
    assert walk.callbacks == ["lbdns/answering/responder.py -> lbdns/server/transport/udp.py: _unread"]
