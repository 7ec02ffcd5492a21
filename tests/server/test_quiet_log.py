"""Checks that queries never cause log lines, whatever they contain and however many there are."""

from __future__ import annotations

import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.answering.asking import make_query
from tests.monitoring.metrics_page import page_of
from tests.server.clients import tcp_client, until
from tests.server.running import Serving, serving, write_config

QUERIES = 5000
KINDS = (
    make_query("best.hobbit"),
    make_query("round.robin.hobbit", "AAAA"),
    make_query("nobody.hobbit"),
    make_query("example.org"),
    make_query("bilbo.hobbit", "TYPE4711"),
    make_query("best.hobbit", payload=512, version=1),
    b"\x12\x34" + bytes(10),
    b"garbage",
)


@pytest.mark.parametrize("workers", [1, 2])
async def test_no_line_for_queries(tmp_path: Path, workers: int) -> None:
    config = write_config(tmp_path, server=f"workers = {workers}", web="127.0.0.1:0")
    async with serving(config, "--log-level", "debug") as server:
        await server.waits_for("serving http://")
        where, begun = server.endpoint(), len(server.log)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for number in range(QUERIES):
                sock.sendto(KINDS[number % len(KINDS)], (where.host, where.port))
        async with tcp_client(where) as client:
            for query in KINDS[:4] * 20:
                assert await client.ask(query)
        await until(lambda: seen(server) >= QUERIES + 80)
        server.tell(signal.SIGTERM)
        assert await server.stopped() == 0
        assert [line.partition("lbdns")[2] for line in server.log[begun:]] == [": stopped"]


def seen(server: Serving) -> float:
    """Return the number of queries read by the server plus those dropped by the kernel."""
    where = server.endpoint("serving ")
    with urllib.request.urlopen(f"http://{where}/metrics", timeout=60) as response:
        page = page_of(response.read())
    read = page["lbdns_dns_request_duration_seconds_count"][()]
    return read + page["lbdns_dns_udp_overflows_total"].get((), 0)
