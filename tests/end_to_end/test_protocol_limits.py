"""Tests of rate limits and repeated queries over real sockets: responses to a flood, and effects on the rotation."""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import dns.edns
import dns.flags
import dns.message
import dns.query
import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.report import Kind, Report, encode
from tests.answering.asking import make_query
from tests.end_to_end.process import eventually
from tests.end_to_end.protocol import PATIENCE, PLANES, dig, serving
from tests.needs import needs

LIMIT: Final = 20
PORTION: Final = 50  # queries at once: their answers fit any receive buffer
MEMBERS: Final = ("bilbo.hobbit.", "frodo.hobbit.", "gandalf.hobbit.")
ROTATION: Final = make_query("round.robin.hobbit", payload=1232)
FLOOD: Final = [number.to_bytes(2, "big") + ROTATION[2:] for number in range(600)]

_networks = itertools.count()


@pytest.fixture(params=PLANES)
def plane(request: pytest.FixtureRequest) -> str:
    """Run every test on both planes."""
    return str(request.param)


@contextmanager
def limited(folder: Path, plane: str, *rules: str) -> Iterator[Endpoint]:
    """Run a server with a low rate limit that also applies to the loopback."""
    text = "\n".join((f"responses_per_second = {LIMIT}", "exempt = []", *rules))
    with serving(folder, plane=plane, rate_limit=text) as (_, endpoint):
        yield endpoint


@contextmanager
def asker(at: Endpoint, source: str) -> Iterator[socket.socket]:
    """Yield a client socket that is bound to ``source`` and a new port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        sock.bind((source, 0))
        sock.connect((at.host, at.port))
        yield sock


def ask_once(at: Endpoint, query: bytes, source: str = "") -> dns.message.Message:
    """Send a query from ``source`` (default: a network that has not sent queries before); return the response."""
    number = next(_networks)
    with asker(at, source or f"127.{200 + number // 250}.{number % 250}.1") as sock:
        sock.send(query)
        return dns.message.from_wire(sock.recv(65535))


def flood(at: Endpoint, queries: Sequence[bytes], source: str) -> list[bytes]:
    """Send a flood of queries, and return the responses."""
    heard: list[bytes] = []
    with asker(at, source) as sock:
        for begin in range(0, len(queries), PORTION):
            sock.settimeout(PATIENCE)
            for query in queries[begin : begin + PORTION]:
                sock.send(query)
            # The server answers in the order of arrival: what had an answer to get has got it when this one is there
            ask_once(at, make_query("mail.hobbit"))
            sock.setblocking(False)
            heard += _waiting(sock)
    return heard


def _waiting(sock: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            yield sock.recv(65535)
        except BlockingIOError:
            return


def is_cut(response: bytes) -> bool:
    return bool(response[2] & 0x02)


class Flood:
    """A flood of queries, and the rate limit windows (1 s each) during which it may have been received."""

    def __init__(self, at: Endpoint, queries: Sequence[bytes] = FLOOD, source: str = "127.1.1.1") -> None:
        began = time.monotonic()
        self.heard = flood(at, queries, source)
        self.windows = int(time.monotonic() - began) + 2
        self.sent = sum(map(len, queries))
        self.whole = [response for response in self.heard if not is_cut(response)]
        self.cut = [response for response in self.heard if is_cut(response)]
        self.over = len(queries) - len(self.whole)


@pytest.mark.parametrize(("slip", "share"), [(0, 0.0), (1, 1.0), (2, 0.5), (5, 0.2)])
def test_a_flood_is_limited(tmp_path: Path, plane: str, slip: int, share: float) -> None:
    with limited(tmp_path, plane, f"slip = {slip}") as at:
        found = Flood(at)
    assert LIMIT <= len(found.whole) <= LIMIT * found.windows
    assert share * found.over - found.windows <= len(found.cut) <= share * found.over
    for response in found.cut:
        message = dns.message.from_wire(response)
        assert message.answer == message.authority == []
        assert len(response) == len(ROTATION)


def test_the_victim_gets_fewer_bytes_than_the_flood_has(tmp_path: Path, plane: str) -> None:
    with limited(tmp_path, plane) as at:
        found = Flood(at)
    longest = max(map(len, found.whole))
    assert longest <= 512
    brought = sum(map(len, found.heard))
    assert brought <= found.windows * LIMIT * longest + found.sent / 2
    assert brought / found.sent < 1


@pytest.mark.parametrize(
    "names", ["x{}.hobbit", "x{}.wild.hobbit", "x{}.sub.hobbit", "x{}.example"], ids=lambda name: str(name)[4:]
)
def test_made_up_names_count_together(tmp_path: Path, plane: str, names: str) -> None:
    with limited(tmp_path, plane) as at:
        found = Flood(at, [make_query(names.format(number), ident=number) for number in range(300)])
    assert LIMIT <= len(found.whole) <= LIMIT * found.windows


def test_other_networks_are_answered_meanwhile_and_the_same_one_a_second_later(tmp_path: Path, plane: str) -> None:
    with limited(tmp_path, plane, "slip = 1") as at:
        Flood(at)
        assert ask_once(at, ROTATION).answer
        end = time.monotonic() + PATIENCE
        while ask_once(at, ROTATION, "127.1.1.77").flags & dns.flags.TC:
            assert time.monotonic() < end
            time.sleep(0.02)


@needs(programs=("dig",))
def test_who_has_a_cookie_or_uses_tcp_is_not_concerned(tmp_path: Path, plane: str) -> None:
    with limited(tmp_path, plane) as at:
        learned = dig(at, "-b", "127.1.1.1", "round.robin.hobbit", "+cookie").cookie
        query = dns.message.make_query("round.robin.hobbit", "A")
        query.use_edns(0, options=[dns.edns.CookieOption(bytes.fromhex(learned)[:8], bytes.fromhex(learned)[8:])])
        wire = query.to_wire()
        Flood(at)
        known = flood(at, [number.to_bytes(2, "big") + wire[2:] for number in range(3 * LIMIT)], "127.1.1.1")
        assert len(known) == 3 * LIMIT
        assert not any(map(is_cut, known))
        for _ in range(3):
            reply = dig(at, "-b", "127.1.1.1", "round.robin.hobbit", f"+cookie={learned}", "+ignore")
            assert reply.answer
            assert dig(at, "-b", "127.1.1.1", "round.robin.hobbit", "+tcp", "+nocookie").answer


def member(response: bytes) -> str:
    return str(dns.message.from_wire(response).answer[-1].name)


def test_a_limited_query_does_not_move_the_rotation(tmp_path: Path, plane: str) -> None:
    with limited(tmp_path, plane) as at:
        found = Flood(at)
        assert found.over > LIMIT
        turns = [member(response) for response in found.whole]
        assert turns == [MEMBERS[number % 3] for number in range(len(turns))]
        assert str(ask_once(at, ROTATION).answer[-1].name) == MEMBERS[len(turns) % 3]


@pytest.mark.parametrize("payload", [None, 1232, 1231])
def test_a_repeated_query_gets_what_it_got_and_does_not_move_the_rotation(
    tmp_path: Path, plane: str, payload: int | None
) -> None:
    query = make_query("round.robin.hobbit", payload=payload)
    with serving(tmp_path, plane=plane) as (_, at), asker(at, "127.0.0.1") as one, asker(at, "127.0.0.1") as other:
        turns = []
        for sock in (one, one, other, one, other, other):
            sock.send(query)
            turns.append(member(sock.recv(65535)))
        assert turns == [MEMBERS[0], MEMBERS[0], MEMBERS[1], MEMBERS[0], MEMBERS[1], MEMBERS[1]]
        for sock in (one, other):  # another id: a query of its own
            sock.send(b"xx" + query[2:])
            turns.append(member(sock.recv(65535)))
        assert turns[-2:] == [MEMBERS[2], MEMBERS[0]]


def test_a_cut_query_does_not_move_the_rotation(tmp_path: Path, plane: str) -> None:
    many = "".join(f"frodo A 127.1.0.{number}\n" for number in range(60))
    with serving(tmp_path, plane=plane, zone=many) as (_, at):
        assert str(ask_once(at, ROTATION).answer[-1].name) == MEMBERS[0]
        for _ in range(4):
            assert ask_once(at, ROTATION).flags & dns.flags.TC, "frodo is due, and too long"
        reply = dns.query.tcp(dns.message.from_wire(ROTATION), at.host, timeout=PATIENCE, port=at.port)
        assert str(reply.answer[-1].name) == MEMBERS[1]
        assert str(ask_once(at, ROTATION).answer[-1].name) == MEMBERS[2]


def test_a_member_that_has_left_is_not_given_again(tmp_path: Path, plane: str) -> None:
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        # By itself the answer would be forgotten after 6 s: slower attempts show nothing
        if seconds_until_another_is_given(folder, plane) < 5:
            return
    raise AssertionError("a member that has left is given until the answer is forgotten, or the machine is too busy")


def seconds_until_another_is_given(folder: Path, plane: str) -> float:
    """Repeat a query, let the member of its answer leave, and return the seconds until the query gets another one."""
    query = make_query("round.robin.hobbit")
    with serving(folder, plane=plane) as (served, at), asker(at, "127.0.0.1") as one:
        found = re.search(r"receiving reports on \S+:(\d+)", served.errors)
        assert found
        port = int(found[1])
        for host, source in SOURCES.items():
            report(port, host, source)
        # With reports the plan is a new one, of the same members
        eventually(lambda: "bilbo" in str(ask_once(at, query).answer[-1].name), "bilbo's turn")
        began = time.monotonic()

        def given() -> str:
            one.send(query)
            return member(one.recv(65535))

        turns = [given() for _ in range(3)]
        if time.monotonic() - began < 5:
            assert len(set(turns)) == 1
        host = turns[-1].partition(".")[0]
        report(port, host, SOURCES[host], bye=True)
        eventually(lambda: given() != turns[-1], "another member")
        return time.monotonic() - began


SOURCES: Final = {"bilbo": "127.0.0.16", "frodo": "127.0.0.17", "gandalf": "127.0.0.18"}


def report(port: int, host: str, source: str, bye: bool = False) -> None:
    """Send a data report (with ``bye``, a "bye" report) from the address of ``host``, as the host's agent would."""
    kind: Kind = "bye" if bye else "data"
    made = Report(host, 1, 2 if bye else 1, time.time(), 60.0, {} if bye else {"cpu_idle": 50.0}, kind)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((source, 0))
        sock.sendto(encode(made), ("127.0.0.1", port))
