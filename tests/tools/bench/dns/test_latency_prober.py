"""Tests of the latency prober with an echo server: it measures every answer's latency, and counts lost queries."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import dns.message
import pytest

from lbdns_tools.bench.dns import latency_prober
from lbdns_tools.bench.dns.amplification import AmplificationFlow, query_at_rate
from lbdns_tools.bench.dns.latency_prober import LatencyProbe, answered_names, await_answer, probe, query_wire
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.free_ports import free_port
from tests.end_to_end.process import eventually


@contextlib.contextmanager
def echo(every: int = 1) -> Iterator[int]:
    """Run a server that returns every n-th datagram with its content repeated twice, and yield the server's port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(0.05)
        ended = threading.Event()

        def serve() -> None:
            number = 0
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    query, client = sock.recvfrom(4096)
                    number += 1
                    if number % every == 0:
                        sock.sendto(2 * query, client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            ended.set()
            thread.join(60)


def test_every_answer_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency_prober, "GRACE", 60.0)  # a busy machine may stop the server for several seconds
    with echo() as port:
        found = probe(port, query_wire("best.hobbit"), rate=200, seconds=0.25)
    assert (found.sent, found.lost) == (50, 0)
    assert all(0 < time < 60_000 for time in found.times)
    assert found.p(50) <= found.p(99) <= max(found.times) + 0.001


def test_a_query_without_an_answer_is_lost() -> None:
    def is_half_lost() -> bool:
        """Return whether each second query is lost. On a busy machine, further answers may come too late."""
        with echo(every=2) as port:
            found = probe(port, query_wire("best.hobbit"), rate=200, seconds=0.1)
        assert found.sent == 20
        assert found.lost >= 10
        return found.lost == 10

    eventually(is_half_lost, "10 of 20 queries are lost")


def test_without_a_server_every_query_is_lost() -> None:
    found = probe(free_port(), query_wire("best.hobbit"), rate=100, seconds=0.05)
    assert found.lost == found.sent == 5


def test_no_times_have_no_percentile() -> None:
    assert LatencyProbe().p(99) == 0


def test_an_answer_is_awaited_with_a_limit() -> None:
    query = query_wire("best.hobbit")
    with echo() as port:
        assert await_answer(port, query, 60) == 2 * query
    with pytest.raises(BenchmarkError, match=r"127\.0\.0\.1:\d+ did not answer a query within 0\.1 s"):
        await_answer(free_port(), query, 0.1)


@pytest.mark.parametrize("edns", [True, False])
def test_a_query_has_the_given_type_and_edns(edns: bool) -> None:
    query = dns.message.from_wire(query_wire("best.hobbit", "AAAA", edns=edns))
    assert (query.edns, query.flags, query.id) == (0 if edns else -1, 0, 0)
    assert query.question[0].to_text() == "best.hobbit. IN AAAA"


def test_the_names_of_an_answer() -> None:
    text = "id 1\nopcode QUERY\nflags QR AA\n;QUESTION\nx. IN A\n;ANSWER\nx. 0 IN CNAME y.\ny. 0 IN A 127.0.0.1\n"
    assert answered_names(dns.message.from_text(text).to_wire()) == ["x. CNAME", "y. A"]


def test_bytes_out_for_bytes_in() -> None:
    query = query_wire("best.hobbit")

    def is_all_answered() -> bool:
        """Return whether every query was answered. On a busy machine, some answers may come too late."""
        with echo() as port:
            flow = query_at_rate(port, "127.1.1.1", [query], rate=500, seconds=0.2)
        assert 0 <= flow.answers <= flow.queries > 0
        assert flow.bytes_in == flow.queries * len(query)
        return flow.answers == flow.queries and flow.ratio == 2

    eventually(is_all_answered, "every query is answered")
    assert AmplificationFlow().ratio == 0
