"""Tests of how the stub resolver queries a small real server, and of how long clients cache answers."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from lbdns_tools.load.epoll_loop import EpollLoop
from lbdns_tools.load.http_connection import RequestError
from lbdns_tools.load.load_plan import ResolveRule, parse_resolve_rule
from lbdns_tools.load.stub_dns_message import AddressAnswer
from lbdns_tools.load.stub_resolver import ClientNames, StubResolver, system_address, system_server
from tests.end_to_end.process import eventually
from tests.tools.load.local_runs import PATIENCE, result_of
from tests.tools.load.loopback_servers import closed_port, names

ANSWERS = {
    "best.hobbit.": ("CNAME frodo.hobbit.",),
    "frodo.hobbit.": ("A 127.0.0.17",),
    "six.hobbit.": ("AAAA ::1",),
    "none.hobbit.": (),
}


def look_up(port: int, name: str, timeout_s: float = PATIENCE) -> AddressAnswer:
    loop = EpollLoop()
    resolver = StubResolver(loop, Endpoint("127.0.0.1", port), Random(1), timeout_s)
    answer = result_of(loop, lambda: resolver.look_up(name))
    assert isinstance(answer, AddressAnswer)
    return answer


def test_addresses() -> None:
    with names(ANSWERS, ttl=7) as server:
        assert look_up(server.port, "best.hobbit") == AddressAnswer(("127.0.0.17",), 7, b"\5frodo\6hobbit\0")
        assert look_up(server.port, "six.hobbit") == AddressAnswer(("::1",), 7, b"\3six\6hobbit\0")


def test_the_resolver_keeps_the_names_that_own_each_address() -> None:
    with names(ANSWERS | {"alone.hobbit.": ("A 127.0.0.17",)}) as server:
        loop = EpollLoop()
        resolver = StubResolver(loop, Endpoint("127.0.0.1", server.port), Random(1))

        async def look_up_all() -> None:
            for name in ("best.hobbit", "alone.hobbit", "six.hobbit"):
                await resolver.look_up(name)

        result_of(loop, look_up_all)
    assert resolver.owners == {"127.0.0.17": {b"\5frodo\6hobbit\0", b"\5alone\6hobbit\0"}, "::1": {b"\3six\6hobbit\0"}}


def test_failures_are_of_dns() -> None:
    with names(ANSWERS) as server:
        for name, words in (
            ("none.hobbit", "no A or AAAA record"),
            ("nobody.hobbit", "NXDOMAIN"),
            ("ü", "not a valid domain name"),
        ):
            with pytest.raises(RequestError, match=words) as caught:
                look_up(server.port, name)
            assert caught.value.kind == "dns"


def test_second_try_after_silence_from_another_port() -> None:
    def is_answered() -> bool:
        """Return whether the second query is answered. On a busy machine, the answer may come too late."""
        with names(ANSWERS) as server:
            server.silent = 1
            try:
                found = look_up(server.port, "frodo.hobbit", 0.1)
            except RequestError:
                return False
        assert found.addresses == ("127.0.0.17",)
        assert (server.queries, len(server.ports)) == (2, 2)
        return True

    eventually(is_answered, "an answer to the second query")
    with names(ANSWERS) as server:
        server.silent = 2
        with pytest.raises(RequestError, match=r"no answer within 0\.1 s"):
            look_up(server.port, "frodo.hobbit", 0.1)


def test_nobody_there() -> None:
    with pytest.raises(RequestError, match="dns"):
        look_up(closed_port(), "frodo.hobbit", 0.2)


def test_truncated_answer_is_asked_for_over_tcp() -> None:
    with names(ANSWERS) as server:
        server.truncates = True
        assert look_up(server.port, "best.hobbit").addresses == ("127.0.0.17",)
        assert server.over_tcp == 1


@pytest.mark.parametrize(
    ("mode", "ttl", "queries"),
    # asked four times at 0, 1, 2 and 3 s
    [("request", 60, 4), ("connection", 60, 4), ("every:1.5s", 60, 2), ("once", 0, 1), ("ttl", 2, 2), ("ttl", 0, 4),
     ("webstone:3s", 60, 2)],
)  # fmt: skip
def test_how_long_a_client_remembers(mode: str, ttl: int, queries: int) -> None:
    asked = 0

    class Counting(StubResolver):
        async def look_up(self, host: str) -> AddressAnswer:
            nonlocal asked
            asked += 1
            return AddressAnswer(("10.0.0.1",), ttl)

    now = 1000.0
    loop = EpollLoop(lambda: now)
    known = ClientNames(
        loop, Counting(loop, Endpoint("127.0.0.1", 53), Random(1)), parse_resolve_rule(mode), {}, Random(1)
    )

    async def use() -> None:
        nonlocal now
        for second in range(4):
            now = 1000.0 + second
            if known.known("h") is None:
                assert await known.look_up("h") == "10.0.0.1"

    with pytest.raises(StopIteration):
        use().send(None)
    assert asked == queries
    loop.close()


@pytest.mark.parametrize("mode", ["1999", "webstone"])
def test_only_a_client_of_1999_keeps_its_interval(mode: Literal["1999", "webstone"]) -> None:
    asked: list[tuple[float, str]] = []

    class Recording(StubResolver):
        async def look_up(self, host: str) -> AddressAnswer:
            asked.append((now, host))
            return AddressAnswer(("10.0.0.1",), 0)

    now = 0.0
    loop = EpollLoop(lambda: now)
    resolver = Recording(loop, Endpoint("127.0.0.1", 53), Random(1))
    # With this seed, the interval is longer than half of the longest interval
    known = ClientNames(loop, resolver, ResolveRule(mode, 20.0, first="round.robin"), {}, Random(2))

    async def use() -> None:
        nonlocal now
        for tenth in range(2000):
            now = tenth / 10
            if known.known("best") is None:
                await known.look_up("best")

    with pytest.raises(StopIteration):
        use().send(None)
    loop.close()
    assert [name for _, name in asked[:3]] == ["round.robin", "best", "best"]
    assert {name for _, name in asked[1:]} == {"best"}
    intervals = [round(later - earlier, 1) for (earlier, _), (later, _) in pairwise(asked)]
    assert all(10 < interval <= 20.1 for interval in intervals)
    assert (max(intervals) - min(intervals) <= 0.11) == (mode == "1999")


def test_literal_addresses_are_never_asked_for() -> None:
    loop = EpollLoop()
    known = ClientNames(loop, None, ResolveRule("request"), {"10.0.0.1": "10.0.0.1"}, Random(1))
    assert known.known("10.0.0.1") == "10.0.0.1"
    assert known.known("other") is None
    assert ResolveRule("once").interval(Random(1)) == math.inf
    loop.close()


def test_system(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("# nameserver 9.9.9.9\nsearch hobbit\nnameserver 198.18.0.2\nnameserver 198.18.0.3\n")
    assert system_server(file) == Endpoint("198.18.0.2", 53)
    file.write_text("search hobbit\n")
    for path in (file, tmp_path / "missing"):
        with pytest.raises(LbdnsError, match="--resolver"):
            system_server(path)
    assert system_address("localhost") in ("127.0.0.1", "::1")
    with pytest.raises(LbdnsError, match="cannot resolve"):
        system_address("nobody.invalid")
