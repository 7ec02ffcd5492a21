"""Tests of closed and open loops with well-behaved and with faulty servers."""

from __future__ import annotations

import errno
import os
import resource
import time

import pytest

from lbdns_shared.endpoint import Endpoint
from lbdns_tools.load.load_plan import ClosedLoop, LoadPhase, OpenLoop, ResolveRule
from lbdns_tools.load.request_mix import RequestMix, RequestTarget
from tests.end_to_end.process import eventually
from tests.tools.load.local_runs import PATIENCE, crowd_of, run_of
from tests.tools.load.loopback_servers import (
    GOOD,
    PAGE,
    Behaviour,
    answering,
    closed_port,
    names,
    resetting,
    stalling,
    web,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


#: A complete response with a length other than that which is known
OTHER_LENGTH = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")


def test_closed_loop_counts_every_request() -> None:
    with web(answering(GOOD)) as server:
        tally = crowd_of(run_of(ClosedLoop(5, requests=203), f"http://127.0.0.1:{server.port}/")).tally
    assert (tally.requests, tally.ok, tally.connections, tally.bytes) == (203, 203, 203, 203 * 1024)
    assert (server.requests, server.connections) == (203, 203)
    assert tally.servers == {"127.0.0.1": [203, 203]}
    assert tally.latency.count == tally.connect.count == 203
    assert tally.dns.count == 0


def test_response_and_transfer_are_timed_apart() -> None:
    page = (b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n", PAGE[:500], PAGE[500:])
    with web(answering(*page, pause_s=0.05)) as server:
        tally = crowd_of(run_of(ClosedLoop(2, requests=6), f"http://127.0.0.1:{server.port}/")).tally
    assert (tally.statuses, tally.response.count, tally.transfer.count) == ({200: 6}, 6, 6)
    # The head arrives after one pause, and the rest of the page after two more
    assert (tally.response.shortest or 0) >= 0.045
    assert tally.transfer.longest >= 0.045  # a busy machine may read the whole page at once, but not six times
    assert tally.response.sum + tally.transfer.sum <= tally.latency.sum


def test_kept_connections_are_one_a_client() -> None:
    with web(answering(GOOD, keep=True)) as server:
        run = run_of(ClosedLoop(5, requests=200), f"http://127.0.0.1:{server.port}/", keep_alive=True)
        tally = crowd_of(run).tally
    assert (tally.ok, tally.connections, server.connections, server.requests) == (200, 5, 5, 200)


def test_kept_connection_that_was_closed_is_no_error() -> None:
    """Check requests to a server that closes connections without notice after each response (RFC 9110, 9.2.2)."""
    with web(answering(GOOD)) as server:
        run = run_of(ClosedLoop(2, requests=60), f"http://127.0.0.1:{server.port}/", keep_alive=True)
        tally = crowd_of(run).tally
    assert (tally.ok, tally.requests, server.requests) == (60, 60, 60)
    assert server.connections == 60


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (resetting, "reset"),
        (stalling, "timeout"),
        (answering(), "reset"),
        (answering(GOOD[:-1]), "protocol"),
        (answering(GOOD[:30]), "protocol"),
        (answering(GOOD + b"!"), "protocol"),
        (answering(b"hello\r\n\r\n"), "protocol"),
        (answering(CHUNKED + b"5\r\nhel"), "protocol"),
        (answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"), "4xx"),
        (answering(b"HTTP/1.1 503 Busy\r\n\r\nbusy"), "5xx"),
        (OTHER_LENGTH, "protocol"),
    ],
)
def test_every_kind_of_failure_is_counted(behaviour: Behaviour, error: str) -> None:
    with web(behaviour) as server:
        mix = RequestMix("m", (RequestTarget("127.0.0.1", server.port, "/", expect=len(PAGE)),))
        patience = 0.2 if error == "timeout" else PATIENCE
        tally = crowd_of(run_of(ClosedLoop(2, requests=6), mix, timeout_s=patience)).tally
    assert (tally.requests, tally.ok, tally.errors[error]) == (6, 0, 6)
    assert tally.latency.count == 6
    assert tally.response.count == sum(tally.statuses.values())
    assert bool(tally.statuses) == (error in ("4xx", "5xx") or behaviour is OTHER_LENGTH)
    if error == "timeout":
        assert (tally.latency.percentile(0) or 0) >= 0.19


@pytest.mark.parametrize(
    "behaviour",
    [
        answering(b"HTTP/1.1 200 OK\r\n", b"Content-Length: 1024\r\n\r", b"\n", PAGE[:500], PAGE[500:], pause_s=0.002),
        answering(CHUNKED + b"200\r\n", PAGE[:512], b"\r\n200\r\n" + PAGE[:512] + b"\r\n0\r\n", b"\r\n", pause_s=0.002),
        answering(b"HTTP/1.0 200 OK\r\n\r\n", PAGE),
        answering(b"HTTP/1.1 100 Continue\r\n\r\n", GOOD, pause_s=0.002),
    ],
)
def test_every_kind_of_body(behaviour: Behaviour) -> None:
    with web(behaviour) as server:
        mix = RequestMix("m", (RequestTarget("127.0.0.1", server.port, "/", expect=len(PAGE)),))
        tally = crowd_of(run_of(ClosedLoop(2, requests=6), mix)).tally
    assert (tally.ok, tally.bytes) == (6, 6 * 1024)


def test_large_body_is_counted_exactly() -> None:
    size = 5_000_000
    with web(answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size), keep=True)) as server:
        run = run_of(ClosedLoop(2, requests=8), f"http://127.0.0.1:{server.port}/", keep_alive=True)
        tally = crowd_of(run).tally
    assert (tally.ok, tally.bytes, server.connections) == (8, 8 * size, 2)


def test_refused_at_once_ends_in_time_and_is_counted() -> None:
    port = closed_port()

    def is_repeated() -> bool:
        """Return whether clients send further requests. A busy machine may leave them time for one request each."""
        begin = time.monotonic()
        tally = crowd_of(run_of(ClosedLoop(3, seconds=0.2), f"http://127.0.0.1:{port}/")).tally
        assert 0.2 <= time.monotonic() - begin < PATIENCE
        assert tally.requests == tally.errors["refused"] >= 3
        assert tally.servers == {"127.0.0.1": [tally.requests, 0]}
        return tally.requests > 3

    eventually(is_repeated, "refused clients try again")


def test_out_of_descriptors_is_our_own_failure() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with web(stalling) as server:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_limit_with_free(8), hard))
        try:
            crowd = crowd_of(run_of(OpenLoop((400.0,), 0.1), f"http://127.0.0.1:{server.port}/", timeout_s=0.4))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert crowd.tally.requests == 40
    assert crowd.tally.errors["local"] > 0
    assert crowd._sockets.local[errno.EMFILE] == crowd.tally.errors["local"] == crowd.tally.local["descriptor"]


def _limit_with_free(count: int) -> int:
    """Return a limit that leaves ``count`` file descriptors free. The descriptors in use need not be contiguous."""
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    return next(limit for limit in range(1, 100_000) if limit - sum(n < limit for n in used) == count)


def test_think_time() -> None:
    with web(answering(GOOD)) as server:
        begin = time.monotonic()
        tally = crowd_of(run_of(ClosedLoop(1, requests=3, think_s=0.1), f"http://127.0.0.1:{server.port}/")).tally
        assert time.monotonic() - begin >= 2 * 0.1
    assert tally.ok == 3


def test_open_loop_counts_from_the_intended_start() -> None:
    """Check that latencies include queueing: a request is due every 5 ms, but takes 20 ms on the only connection."""
    with web(answering(GOOD, pause_s=0.02)) as server:
        run = run_of(OpenLoop((200.0,), 0.1), f"http://127.0.0.1:{server.port}/", max_connections=1)
        crowd = crowd_of(run)
    tally = crowd.tally
    assert tally.ok == 20
    assert 10 <= crowd.held_back <= 19, "a busy machine may end a request before it starts the next"
    assert (tally.latency.percentile(100) or 0) >= 20 * 0.02 - 0.1
    assert (tally.late.percentile(100) or 0) >= 19 * 0.02 - 0.1


def test_open_loop_does_not_wait_for_responses() -> None:
    with web(stalling) as server:
        tally = crowd_of(run_of(OpenLoop((300.0,), 0.2), f"http://127.0.0.1:{server.port}/", timeout_s=0.3)).tally
    assert (tally.requests, tally.errors["timeout"]) == (60, 60)
    assert tally.series()[0][1] == 60


def test_queue_for_connections_ends_too() -> None:
    with web(stalling) as server:
        run = run_of(OpenLoop((200.0,), 0.1), f"http://127.0.0.1:{server.port}/", timeout_s=0.2, max_connections=2)
        tally = crowd_of(run).tally
    assert (tally.requests, tally.ok) == (20, 0)
    assert tally.errors["local"] + tally.errors["timeout"] == 20
    assert tally.errors["local"] == tally.local["connection"] > 0
    assert tally.errors["timeout"] > 0


def test_warm_up_is_sent_and_not_counted() -> None:
    with web(answering(GOOD)) as server:
        crowd = crowd_of(run_of(OpenLoop((100.0,), 0.3), f"http://127.0.0.1:{server.port}/", warm_up_s=0.1))
    assert (server.requests, crowd.tally.ok) == (30, 20)


def test_phases_overlap() -> None:
    with web(answering(GOOD)) as one, web(answering(GOOD)) as other:
        phases = tuple(
            LoadPhase(begin, OpenLoop((100.0,), 0.2), RequestMix("m", (RequestTarget("127.0.0.1", server.port, "/"),)))
            for begin, server in ((0.0, one), (0.1, other))
        )
        begin = time.monotonic()
        tally = crowd_of(run_of(ClosedLoop(1, requests=1), "http://127.0.0.1/", phases=phases)).tally
    assert (one.requests, other.requests) == (20, 20)
    assert time.monotonic() - begin < PATIENCE
    assert tally.servers == {f"127.0.0.1:{one.port}": [20, 20], f"127.0.0.1:{other.port}": [20, 20]}


def test_sources_are_used_in_turn() -> None:
    with web(answering(GOOD)) as server:
        run = run_of(ClosedLoop(1, requests=6), f"http://127.0.0.1:{server.port}/")
        crowd_of(run, sources=("127.0.1.1", "127.0.1.2", "::1"))
    assert server.peers == {"127.0.1.1", "127.0.1.2"}


@pytest.mark.parametrize(
    ("resolve", "keep_alive", "queries"),
    [
        ("request", True, 24),
        ("connection", False, 24),
        ("connection", True, 2),  # as many as clients
        ("once", False, 2),
        ("ttl", False, 2),
    ],
)
def test_how_often_names_are_resolved(resolve: str, keep_alive: bool, queries: int) -> None:
    with web(answering(GOOD, keep=True)) as server, names({"www.hobbit.": ("A 127.0.0.1",)}, ttl=60) as server_of_names:
        run = run_of(
            ClosedLoop(2, requests=24),
            f"http://www.hobbit:{server.port}/",
            resolve=ResolveRule(resolve, server=Endpoint("127.0.0.1", server_of_names.port)),  # type: ignore[arg-type]
            keep_alive=keep_alive,
        )
        tally = crowd_of(run).tally
    assert (tally.ok, server_of_names.queries, tally.dns.count) == (24, queries, queries)
    assert b"Host: www.hobbit:" in server.heads[0]


def test_time_of_dns_is_not_that_of_http() -> None:
    def are_told_apart() -> bool:
        """Return whether the time of HTTP is shorter than that of DNS. A busy machine may delay either."""
        with web(answering(GOOD)) as server, names({"www.hobbit.": ("A 127.0.0.1",)}) as server_of_names:
            server_of_names.silent = 1  # so the first query takes as long as the first try may
            run = run_of(
                ClosedLoop(1, requests=1),
                f"http://www.hobbit:{server.port}/",
                resolve=ResolveRule("request", server=Endpoint("127.0.0.1", server_of_names.port)),
            )
            tally = crowd_of(run, dns_timeout_s=0.3).tally
        assert (tally.dns.percentile(100) or 0) >= 0.3
        return tally.ok == 1 and (tally.latency.percentile(100) or 1) < 0.3

    eventually(are_told_apart, "the request takes less than 0.3 s")


def test_failures_of_dns_are_told_apart() -> None:
    with names({}) as server:
        resolve = ResolveRule("request", server=Endpoint("127.0.0.1", server.port))
        tally = crowd_of(run_of(ClosedLoop(1, requests=2), "http://www.hobbit/", resolve=resolve)).tally
        server.silent = 1000
        slow = crowd_of(run_of(ClosedLoop(1, requests=1), "http://www.hobbit/", resolve=resolve, timeout_s=0.1)).tally
    assert (tally.requests, tally.errors["dns"], tally.servers) == (2, 2, {})
    assert (slow.errors["dns"], slow.errors["timeout"]) == (1, 0)
    assert (slow.latency.percentile(100) or 0) >= 0.1
