"""Tests of the affinity benchmark: queries from many client addresses through one socket, and the cost ratios."""

from __future__ import annotations

import socket
import threading

import pytest

from lbdns_tools.bench.dns.address_family_affinity import BURST, query_from, summary
from lbdns_tools.bench.measured_processes import BenchmarkError

PATIENCE = 30.0  # seconds


def test_each_address_sends_every_query_with_a_new_id() -> None:
    received: list[tuple[str, bytes]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(PATIENCE)

        def answer() -> None:
            while True:
                datagram, client = sock.recvfrom(512)
                if datagram == b"end":
                    return
                received.append((client[0], datagram))
                sock.sendto(datagram, client)

        thread = threading.Thread(target=answer)
        thread.start()
        load = query_from(sock.getsockname()[1], [b"..one", b"..two"], 3, 0.1)
        sock.sendto(b"end", sock.getsockname())
        thread.join(PATIENCE)
    assert load.sent == load.answered == len(received)
    assert load.sent % BURST == 0
    assert received[:6] == [(f"127.1.0.{n}", b"\0\0" + text) for n in range(3) for text in (b"one", b"two")]
    assert len(set(received)) == len(received), "no datagram twice"


def test_a_silent_server_is_an_error() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(BenchmarkError, match="did not answer any query"):
            query_from(silent.getsockname()[1], [b"..one"], 1, 5.0)


def test_ratios_are_taken_within_a_round() -> None:
    found = summary({"A": {"on": [11.0, 44.0, 22.0], "off": [10.0, 40.0, 20.0]}})
    assert found == {"A": {"on_us": 22.0, "off_us": 20.0, "ratio": 1.1}}
