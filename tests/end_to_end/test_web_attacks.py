"""Tests of attacks on the web interface: idle connections and half-sent requests must not lock readers out."""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.harness import Site, new_site, serving
from tests.end_to_end.namespaces import DNS4, server_and_client
from tests.end_to_end.process import eventually, running
from tests.needs import needs

FARM: Final = {"gandalf": ["127.0.0.18"], "frodo": ["127.0.0.17"]}
#: Seconds in which a reader gets a page: without limits, readers waited for 24 s. On an idle machine it takes 10 ms
SOON: Final = 5.0
HALF: Final = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX-Half: "


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard) if hard != resource.RLIM_INFINITY else 8192, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def attackers(site: Site, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Open connections without waiting for the server, and send ``sent`` on each that is established."""
    with contextlib.ExitStack() as stack:
        opened = []
        for number in range(count):
            sock = stack.enter_context(socket.socket())
            sock.bind((f"127.0.{number % 50}.9", 0))
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect((site.address, site.http_port))
            opened.append(sock)
            if sent:
                with contextlib.suppress(OSError):
                    sock.send(sent)
        yield opened


def seconds_to_read(site: Site, path: str) -> float:
    """Return the shortest of three times, because a busy machine may delay one of them."""
    times = []
    for _ in range(3):
        began = time.monotonic()
        site.page(path)
        times.append(time.monotonic() - began)
    return min(times)


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize(("count", "sent"), [(5000, b""), (1000, HALF)])
@pytest.mark.parametrize("workers", [1, 2])
def test_readers_are_not_locked_out(tmp_path: Path, count: int, sent: bytes, workers: int) -> None:
    site = new_site(tmp_path, FARM)
    site.write()
    with serving(site, "--workers", str(workers)) as server, attackers(site, count, sent):
        for path in ("/healthz", "/api/v1/status", "/metrics"):
            took = seconds_to_read(site, path)
            print(f"{count} connections, {path}: {took * 1000:.0f} ms")
            assert took < SOON
        assert "Traceback" not in server.errors


#: Connects 300 times, sends half a head each time, and prints the first lines of the responses
_OUTSIDERS: Final = """
import socket, sys
opened = [socket.create_connection((sys.argv[1], 8053), timeout=30) for _ in range(300)]
for sock in opened:
    try:
        sock.sendall(b"GET /api/v1/status HTTP/1.1\\r\\nHost: localhost\\r\\nX-Half: ")
    except ConnectionError:
        pass
print("all sent", flush=True)
refused = 0
for sock in opened:
    try:
        refused += sock.recv(1000).startswith(b"HTTP/1.1 403 ")
    except ConnectionError:
        refused += 1  # the reset has overtaken the response
print("refused", refused, flush=True)
sys.stdin.read()
"""


@needs(programs=("ip", "curl"), root=True, namespaces=True)
def test_clients_outside_allow_are_refused_unread(tmp_path: Path) -> None:
    """The server's machine may read under its own address, though this address is not in ``allow``."""
    site = Site(tmp_path, FARM, DNS4, dns_port=53, report_port=7777, http_port=8053)
    site.write(web='allow = ["192.0.2.0/24"]')
    with server_and_client(()) as (own, other), serving(site, inside=own.inside) as server:
        server.until(lambda: own.run("curl", "-sf", f"http://{DNS4}:8053/healthz", check=False).stdout, "it serves")
        with running(*other.inside, sys.executable, "-c", _OUTSIDERS, DNS4) as outsiders:
            eventually(lambda: "all sent" in outsiders.output, "the attackers have connected")
            times = []
            for _ in range(3):
                began = time.monotonic()
                assert own.run("curl", "-sf", f"http://{DNS4}:8053/healthz").stdout == "ok\n"
                times.append(time.monotonic() - began)
            assert min(times) < SOON
            eventually(lambda: "refused 300" in outsiders.output, "all are refused")
        metrics = own.run("curl", "-sf", f"http://{DNS4}:8053/metrics").stdout
        assert [line for line in metrics.splitlines() if '"network"' in line] == [
            'lbdns_http_refused_total{reason="network"} 300'
        ]
        assert server.errors.count("is not in a network listed in [web] allow") == 1
