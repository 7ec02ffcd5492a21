"""Real web servers for the agent's tests: nginx, HAProxy and Caddy."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lbdns_tools.free_ports import free_port
from tests.agent.waiting import PATIENCE, until
from tests.needs import program

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
    server {{
        listen 127.0.0.1:{port};
        location = /nginx_status {{ stub_status; }}
        location = /forbidden {{ deny all; }}
        location = /slow {{ limit_rate 1; root {folder}; }}
        location / {{ return 204; }}
    }}
}}
"""
HAPROXY = """\
global
    stats socket {folder}/stats.sock mode 600 level user
    maxconn 50
defaults
    mode http
    timeout connect 2s
    timeout client 20s
    timeout server 20s
    timeout queue 20s
frontend www
    bind 127.0.0.1:{port}
    default_backend web
frontend stats
    bind 127.0.0.1:{csv}
    stats enable
    stats uri /stats
backend web
    server first 127.0.0.1:{web} {limit}
"""
#: Follows the global options
CADDY = """\
{host}:{port} {{
    bind 127.0.0.1
    root * {folder}
    file_server
    handle /hello {{
        respond "hello"
    }}
    reverse_proxy /slow 127.0.0.1:{web}
}}
"""


def is_open(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def get(port: int, path: str = "/") -> bytes:
    """Request a page over a connection of its own, and return the response."""
    with open_request(port, path) as sock:
        return b"".join(iter(lambda: sock.recv(65536), b""))


def open_request(port: int, path: str = "/") -> socket.socket:
    """Send a request, and return its connection."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    sock.sendall(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
    return sock


@contextlib.contextmanager
def running(command: list[str], log: Path, port: int) -> Iterator[None]:
    """Run a server until the end of the block, which begins when the server listens on ``port``."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            until(lambda: process.poll() is None and is_open(port))
            yield
        finally:
            process.kill() if "haproxy" in command[0] else process.terminate()


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[int]:
    """Run an nginx, and yield its port. Requests for /slow remain in progress."""
    port = free_port()
    folder.chmod(0o755)  # for nginx's worker, which runs as another user if this one is root
    (folder / "slow").write_bytes(bytes(2_000_000))
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    command = [program("nginx"), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    with running(command, folder / "log", port):
        yield port


@contextlib.contextmanager
def haproxy(folder: Path, web: int, limit: str = "") -> Iterator[tuple[int, int]]:
    """Run an HAProxy before a server on port ``web``. Yields the ports of its front end and of its CSV page."""
    port, csv = free_port(), free_port()
    (folder / "haproxy.cfg").write_text(HAPROXY.format(folder=folder, port=port, csv=csv, web=web, limit=limit))
    with running([program("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")], folder / "log", port):
        until((folder / "stats.sock").exists)  # HAProxy opens it last
        yield port, csv


@contextlib.contextmanager
def caddy(folder: Path, global_options: str, host: str, web: int) -> Iterator[tuple[int, int]]:
    """Run a Caddy before a server on port ``web``, which gets the requests for /slow.

    ``global_options`` is the block at the start of the Caddyfile, and ``host`` is what the site's address has before
    the port. Yields the ports of the site and of the administration end point.
    """
    port, admin = free_port(), free_port()
    options = global_options.replace("{\n", f"{{\nadmin 127.0.0.1:{admin}\n", 1)
    (folder / "Caddyfile").write_text(options + CADDY.format(host=host, port=port, folder=folder, web=web))
    caddy = [program("caddy"), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    with running(["env", f"HOME={folder}", *caddy], folder / "log", port):
        yield port, admin
