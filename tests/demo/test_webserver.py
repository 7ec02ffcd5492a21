"""Tests of the demo's web server over real sockets."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from lbdns.demo.webserver import DemoWebServer, listen
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_ports
from tests.end_to_end.process import eventually
from tests.needs import needs

NO_CPU = os.times_result((0, 0, 0, 0, 0))


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listen(Endpoint("127.0.0.1", 0)) as found:
        yield found


@pytest.fixture
def server(listener: socket.socket) -> Iterator[DemoWebServer]:
    web = DemoWebServer("bilbo", [listener], workers=4)
    web.start()
    yield web
    web.stop()


def get(listener: socket.socket, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    host, port = listener.getsockname()[:2]
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def status(listener: socket.socket) -> dict[str, str]:
    code, text = get(listener, "/server-status?auto")
    assert code == 200
    return dict(line.split(": ", 1) for line in text.splitlines())


def test_the_page_says_who_answers(server: DemoWebServer, listener: socket.socket) -> None:
    code, text = get(listener, "/", Host="best.hobbit")
    assert code == 200
    assert "<h1>bilbo</h1>" in text
    assert "best.hobbit" in text
    assert "from 127.0.0.1." in text


def test_what_a_client_says_is_text_not_markup(server: DemoWebServer, listener: socket.socket) -> None:
    assert "<script>" not in get(listener, "/", Host="<script>alert(1)</script>")[1]


def counted(server: DemoWebServer, requests: int) -> None:
    """Wait until the server has counted the requests, which happens only after the client has its response."""
    eventually(lambda: server.scoreboard.accesses == requests, f"{requests} requests are counted")


def test_every_request_is_counted_once(server: DemoWebServer, listener: socket.socket) -> None:
    assert status(listener)["Total Accesses"] == "0"
    sizes = [len(get(listener, path)[1]) for path in ("/", "/", "/nope", "/work?ms=0")]
    counted(server, 5)
    assert status(listener)["Total Accesses"] == "5"
    assert server.scoreboard.bytes_sent >= sum(sizes)


def test_head_has_no_body_but_counts(server: DemoWebServer, listener: socket.socket) -> None:
    assert get(listener, "/", "HEAD") == (200, "")
    counted(server, 1)
    assert server.scoreboard.bytes_sent == 0


def test_work_burns_cpu_time(server: DemoWebServer, listener: socket.socket) -> None:
    before = os.times()
    assert get(listener, "/work?ms=200") == (200, "<p>bilbo worked 200 ms.\n")
    after = os.times()
    assert after.user + after.system - before.user - before.system >= 0.15


@pytest.mark.parametrize("ms", ["", "-1", "x", "1.5", "10001", "9" * 5000, "%0A"])
def test_work_that_is_none(server: DemoWebServer, listener: socket.socket, ms: str) -> None:
    assert get(listener, f"/work?ms={ms}")[0] == 400


def test_sleep_takes_time_but_no_cpu_time(server: DemoWebServer, listener: socket.socket) -> None:
    began = time.monotonic()
    assert get(listener, "/sleep?s=0.2") == (200, "<p>bilbo slept 0.2 s.\n")
    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("seconds", ["", "-1", "x", "10", "1.2345", "nan", "9" * 5000])
def test_sleep_that_is_none(server: DemoWebServer, listener: socket.socket, seconds: str) -> None:
    assert get(listener, f"/sleep?s={seconds}")[0] == 400


@pytest.mark.parametrize("path", ["//[", "/%", "/?" + "&" * 500, "/server-status"])
def test_odd_paths_cost_no_worker(server: DemoWebServer, listener: socket.socket, path: str) -> None:
    for _ in range(6):  # more often than there are workers
        assert get(listener, path)[0] in (200, 404)
    eventually(lambda: status(listener)["IdleWorkers"] == "3", "only the one that says so is at work")


@pytest.mark.parametrize(
    "request_bytes", [b"", b"\0\xff\n\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"BREW / HTTP/1.0\r\n\r\n"]
)
def test_garbage_costs_no_worker(server: DemoWebServer, listener: socket.socket, request_bytes: bytes) -> None:
    for _ in range(6):
        with socket.create_connection(listener.getsockname()[:2], timeout=60) as connection:
            connection.sendall(request_bytes)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1000):
                pass
    assert get(listener, "/")[0] == 200


def test_busy_workers_are_seen_and_the_next_waits_in_the_kernel(server: DemoWebServer, listener: socket.socket) -> None:
    """Four workers are occupied by silent clients; a fifth request is answered when one of them disconnects."""
    held = [socket.create_connection(listener.getsockname()[:2]) for _ in range(4)]
    answers: list[int] = []
    fifth = threading.Thread(target=lambda: answers.append(get(listener, "/")[0]))
    try:
        eventually(
            lambda: server.scoreboard.page(1, NO_CPU, (0, 0, 0)).endswith("Scoreboard: RRRR\n"), "all four are held"
        )
        fifth.start()
        fifth.join(0.2)
        assert answers == []
        held.pop().close()
        fifth.join(60)
        assert answers == [200]
    finally:
        for connection in held:
            connection.close()


@needs(ipv6=True)
def test_one_server_on_two_addresses() -> None:
    with listen(Endpoint("127.0.0.1", 0)) as four, listen(Endpoint("::1", 0)) as six:
        web = DemoWebServer("gandalf", [four, six], workers=2)
        web.start()
        addresses = [four.getsockname(), six.getsockname()]
        assert "from 127.0.0.1." in get(four, "/")[1]
        assert "from ::1." in get(six, "/")[1]
        counted(web, 2)
        web.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(addresses[0])


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_program_ends_well(number: signal.Signals) -> None:
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "lbdns.demo.webserver", "--name", "bilbo", "--listen", f"127.0.0.1:{port}"],
        stderr=subprocess.PIPE,
    )
    eventually(lambda: _accepts(port), "it is up")
    process.send_signal(number)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


def test_a_taken_port_is_said(listener: socket.socket) -> None:
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    result = subprocess.run(
        [sys.executable, "-m", "lbdns.demo.webserver", "--name", "bilbo", "--listen", address],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.startswith("web server bilbo: ")
    assert "in use" in result.stderr
    assert "Traceback" not in result.stderr
