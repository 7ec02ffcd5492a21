"""Real web servers and balancers on loopback addresses."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from lbdns_tools.free_ports import free_ports
from lbdns_tools.scaler.front_ends.front_end import FrontEnd
from tests.needs import program

PATIENCE: Final = 60.0  # seconds; a busy machine may stop a process for several seconds
HAPROXY = """\
global
    stats socket {folder}/admin.sock mode 600 level admin
    maxconn 200
defaults
    mode http
    timeout connect 60s
    timeout client 60s
    timeout server 60s
    timeout queue 2s
frontend www
    bind 127.0.0.1:{port}
    default_backend web
backend web
    balance {balance}
    # BEGIN lbdns-scaler
    # END lbdns-scaler
"""
NGINX = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
worker_processes 1;
events {{ worker_connections 100; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream web {{ include {folder}/upstream.conf; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://web; proxy_next_upstream off; }}
        location = /nginx_status {{ stub_status; }}
    }}
}}
"""


class Handler(BaseHTTPRequestHandler):
    """Answers with the server's address. Requests for /slow wait until the server is released."""

    server: WebServer
    protocol_version = "HTTP/1.1"  # balancers keep their connections to the servers open

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.server.busy.set()
            self.server.release.wait(PATIENCE)
        body = str(self.server.server_address[0]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class WebServer(ThreadingHTTPServer):
    """A web server with a page that takes as long as the test wants."""

    daemon_threads = True

    def __init__(self, address: str, port: int) -> None:
        self.busy, self.release = threading.Event(), threading.Event()
        super().__init__((address, port), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a balancer that stops resets its connections."""


@contextlib.contextmanager
def web_servers(*addresses: str) -> Iterator[tuple[int, dict[str, WebServer]]]:
    """Yield the port of several web servers, and the servers by address."""
    (port,) = free_ports(1)
    servers = {address: WebServer(address, port) for address in addresses}
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers.values()]
    for thread in threads:
        thread.start()
    try:
        yield port, servers
    finally:
        for server in servers.values():
            server.release.set()
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


class Balancer:
    """A balancer process in the foreground."""

    def __init__(self, command: list[str], folder: Path, port: int) -> None:
        self.folder, self.port, self._command = folder, port, command
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it accepts connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(lambda: self.status("/") > 0)

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE)

    def restart(self) -> None:
        self.stop()
        self.start()

    def get(self, path: str = "/", timeout: float = PATIENCE) -> tuple[int, str]:
        """Return the status and the body of a response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def status(self, path: str) -> int:
        """Return the status of a response, or 0 if there is none."""
        try:
            return self.get(path, 2.0)[0]
        except OSError:
            return 0

    def served_by(self, requests: int = 12) -> Counter[str]:
        """Return how many of some requests each web server has answered."""
        found = [self.get() for _ in range(requests)]
        assert {status for status, _ in found} == {200}, found
        return Counter(body for _, body in found)


@contextlib.contextmanager
def haproxy(folder: Path, balance: str = "roundrobin", extra: str = "") -> Iterator[Balancer]:
    (port,) = free_ports(1)
    config = folder / "haproxy.cfg"
    config.write_text(HAPROXY.format(folder=folder, port=port, balance=balance) + extra)
    running = Balancer([program("haproxy"), "-db", "-f", str(config)], folder, port)
    try:
        yield running
    finally:
        running.stop()


@contextlib.contextmanager
def nginx(folder: Path, upstream: str) -> Iterator[Balancer]:
    (port,) = free_ports(1)
    folder.chmod(0o755)
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port))
    (folder / "upstream.conf").write_text(upstream)
    running = Balancer([program("nginx"), *nginx_options(folder)], folder, port)
    try:
        yield running
    finally:
        running.stop()


def nginx_options(folder: Path) -> tuple[str, ...]:
    """Return the options that select this nginx."""
    return "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")


def wait_until(condition: Callable[[], object], longest: float = PATIENCE) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + longest
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.02)


async def until(condition: Callable[[], Awaitable[object]], longest: float = PATIENCE) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + longest
    while not await condition():
        assert time.monotonic() < end, "the condition never held"
        await asyncio.sleep(0.05)


async def serving(front: FrontEnd) -> set[str]:
    """Return the names of the servers to which the front end sends clients."""
    return {name for name, server in (await front.servers()).items() if server.serving}
