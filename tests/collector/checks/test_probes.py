"""Tests of probes against real sockets on the loopback."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lbdns.config.check_setting import CheckConfig, CheckTarget, parse_target
from lbdns_collector.checks.probe_result import PASSED, ProbeResult
from lbdns_collector.checks.probes import failure_of, probe_http, probe_tcp
from tests.needs import needs

PATIENT = 30.0  # seconds: for probes that get an answer


def check_of(text: str, timeout: float = PATIENT, status: tuple[tuple[int, int], ...] = ((200, 399),)) -> CheckConfig:
    return CheckConfig(parse_target(text), status, timeout=timeout)


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@asynccontextmanager
async def server(response: bytes, seen: list[bytes] | None = None, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """A server that reads a request head, answers with ``response`` byte by byte, and closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_head = await reader.readuntil(b"\r\n\r\n") if response else b""
        if seen is not None:
            seen.append(with_head)
        for i in range(len(response)):
            writer.write(response[i : i + 1])
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, host, 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def http(port: int, check: CheckConfig, host: str = "frodo.hobbit", path: str = "/") -> ProbeResult:
    return await probe_http("127.0.0.1", CheckTarget("", "http", port, "", path), host, check)


async def test_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert await probe_tcp("127.0.0.1", port, check_of("tcp:1")) == PASSED
    assert await probe_tcp("127.0.0.1", port, check_of("tcp:1")) == (False, "connection refused")


@needs(ipv6=True)
async def test_tcp_by_ipv6() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listening:
        assert await probe_tcp("::1", listening.getsockname()[1], check_of("tcp:1")) == PASSED


async def test_without_an_answer_it_ends_after_the_timeout() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        held = [socket.socket() for _ in range(3)]  # more than the accept queue holds: further SYNs are dropped
        for sock in held:
            sock.setblocking(False)
            sock.connect_ex(address)
        began = time.monotonic()
        result = await probe_tcp(address[0], address[1], check_of("tcp:1", timeout=0.2))
        assert result == (False, "no answer within 0.2 s") or result.passed is None  # if this machine stalled
        assert time.monotonic() - began >= 0.2
        for sock in held:
            sock.close()


async def test_a_stalled_event_loop_misses_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        probe = asyncio.ensure_future(
            probe_tcp("127.0.0.1", listening.getsockname()[1], check_of("tcp:1", timeout=0.05))
        )
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251  the stall
        assert await probe == PASSED


async def test_a_stall_between_two_steps_is_no_failure() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\n") as port:
        probe = asyncio.ensure_future(http(port, check_of("http://:80/", timeout=0.05)))
        await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251  the stall
        assert (await probe).passed is not False


@pytest.mark.parametrize(
    ("response", "result"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", PASSED),
        (b"HTTP/1.0 204\r\n\r\n", PASSED),
        (b"HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", PASSED),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", (False, "status 404")),
        (b"HTTP/1.1 503 \xff\r\n\r\n", (False, "status 503")),
        (b"HTTP/2 200\r\n\r\n", (False, "the response is not HTTP")),
        (b"SSH-2.0-OpenSSH_9\r\n", (False, "the response is not HTTP")),
        (b"x" * 1000, (False, "the response is not HTTP")),
        (b"HTTP/1.1 2", (False, "the response is not HTTP")),
    ],
)
async def test_http(response: bytes, result: ProbeResult) -> None:
    async with server(response) as port:
        assert await http(port, check_of("http://:80/")) == result


async def test_http_without_a_response() -> None:
    async with server(b"") as port:
        result = await http(port, check_of("http://:80/"))
        assert result.reason in ("the member closed the connection without a response", "connection reset by peer")
        assert result.passed is False


async def test_the_statuses_that_pass() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\n") as port:
        assert await http(port, check_of("http://:80/", status=((300, 399),))) == (False, "status 200")
        assert await http(port, check_of("http://:80/", status=((404, 404), (200, 200)))) == PASSED


async def test_the_request() -> None:
    seen: list[bytes] = []
    async with server(b"HTTP/1.1 200 OK\r\n\r\n", seen) as port:
        await http(port, check_of("http://:80/"), "www.example.net", "/ok?x=1")
    assert seen[0].startswith(f"GET /ok?x=1 HTTP/1.1\r\nHost: www.example.net:{port}\r\nUser-Agent: lbdns/".encode())
    assert seen[0].endswith(b"Connection: close\r\n\r\n")


async def test_a_lack_of_descriptors_is_no_failure_of_the_member() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
            result = await probe_tcp("127.0.0.1", port, check_of("tcp:1"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert result == (None, "too many open files")


@pytest.mark.parametrize(
    ("number", "passed"),
    [(errno.EMFILE, None), (errno.ENETUNREACH, None), (errno.EPERM, None), (errno.EHOSTUNREACH, False),
     (errno.ECONNREFUSED, False), (errno.ECONNRESET, False), (errno.ETIMEDOUT, False)],
)  # fmt: skip
def test_whose_error_it_is(number: int, passed: bool | None) -> None:
    assert failure_of(OSError(number, "text")) == (passed, os.strerror(number).lower())
