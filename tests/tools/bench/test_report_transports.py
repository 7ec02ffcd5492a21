"""Checks how simulated reports reach collectors: each host keeps its collector, and a bus receives its subject."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter

import pytest

from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.bench.report_transports import ReportTarget, collector_of


def test_hosts_are_spread_over_the_collectors() -> None:
    counts = Counter(collector_of(f"m{number}", 4) for number in range(4000))
    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > 800
    assert collector_of("m1", 1) == 0


def test_each_host_reports_to_its_collector() -> None:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
            sock.settimeout(10)
        transport = ReportTarget([sock.getsockname()[1] for sock in sockets]).connect()
        stack.callback(transport.close)
        for host in ("m0", "m1", "m2", "m3"):
            transport.send(host, host.encode())
            transport.flush()
            assert sockets[collector_of(host, 2)].recv(100) == host.encode()


def test_a_bus_receives_reports_and_replies_to_its_pings() -> None:
    received = bytearray()

    def serve(listener: socket.socket) -> None:
        connection = listener.accept()[0]
        with connection:
            connection.settimeout(10)
            connection.sendall(b"INFO {}\r\n")
            while b"PING\r\n" not in received:
                received.extend(connection.recv(4096))
            connection.sendall(b"PONG\r\n")
            while b"report\r\n" not in received:
                received.extend(connection.recv(4096))
            connection.sendall(b"PING\r\n")
            while not received.endswith(b"PONG\r\n"):
                received.extend(connection.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        transport = ReportTarget((), listener.getsockname()[1]).connect()
        transport.send("m7", b"report")
        with contextlib.suppress(BenchmarkError):  # the server closes the connection once it has the reply
            while thread.is_alive():
                transport.flush()
        thread.join(10)
        transport.close()
    assert b"PUB lbdns.report.-.m7 6\r\nreport\r\n" in received
    assert received.endswith(b"PONG\r\n")


def test_a_bus_that_refuses_is_an_error() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind(("127.0.0.1", 0))  # does not listen
        with pytest.raises(BenchmarkError, match="cannot connect to the NATS server"):
            ReportTarget((), sock.getsockname()[1]).connect()
