"""Many clients on one socket, and how costs with coherence and without become a ratio."""

from __future__ import annotations

import socket
import threading

import pytest

from lbdns_tools.bench.dns import coherence
from lbdns_tools.bench.dns.addresses import BURST, ask_from
from lbdns_tools.bench.dns.processes import BenchError

PATIENCE = 30.0  # seconds


def test_each_address_asks_everything_with_an_id_of_its_own() -> None:
    heard: list[tuple[str, bytes]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(PATIENCE)

        def answer() -> None:
            while True:
                datagram, client = sock.recvfrom(512)
                if datagram == b"end":
                    return
                heard.append((client[0], datagram))
                sock.sendto(datagram, client)

        thread = threading.Thread(target=answer)
        thread.start()
        load = ask_from(sock.getsockname()[1], [b"..one", b"..two"], 3, 0.1)
        sock.sendto(b"end", sock.getsockname())
        thread.join(PATIENCE)
    assert load.sent == load.answered == len(heard)
    assert load.sent % BURST == 0
    assert heard[:6] == [(f"127.1.0.{n}", b"\0\0" + text) for n in range(3) for text in (b"one", b"two")]
    assert len(set(heard)) == len(heard), "no datagram twice"


def test_nobody_is_told() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(BenchError, match="nobody answers"):
            ask_from(silent.getsockname()[1], [b"..one"], 1, 5.0)


def test_ratios_are_of_the_same_round() -> None:
    found = coherence.summary({"A": {"on": [11.0, 44.0, 22.0], "off": [10.0, 40.0, 20.0]}})
    assert found == {"A": {"on_us": 22.0, "off_us": 20.0, "ratio": 1.1}}
