"""The demo's small web server, with a fixed number of workers, real counters, and pages that consume CPU time.

As in Apache's prefork module, each worker serves one connection at a time. While all workers are busy, new connections
wait in the kernel's listen queue.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import os
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs

from lbdns.demo.scoreboard import READING, WAITING, WRITING, Scoreboard
from lbdns.process.stop_signals import stop_signals
from lbdns_shared.endpoint import Endpoint, parse_listen

HTTP_PORT: Final = 8080
WORKERS: Final = 20  # number of idle workers for which score "thesis" gives its full 19.68
BACKLOG: Final = 511  # connections; Apache's ListenBacklog
READ_TIMEOUT: Final = 5.0  # seconds: a silent client must not occupy a worker
_SWITCH_INTERVAL: Final = 5e-4  # seconds: with Python's 5 ms, the status page would wait 5 ms for each busy worker
MAX_WORK: Final = 10_000  # ms of CPU time that one request may ask for


class DemoWebServer:
    """A web server with one or more listening sockets."""

    def __init__(self, name: str, listeners: Sequence[socket.socket], workers: int = WORKERS) -> None:
        self.name = name
        self.scoreboard = Scoreboard(workers)
        self.started = time.monotonic()
        self._listeners = listeners
        self._turn = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        """Start the worker threads as daemons, so that the process can exit without waiting for slow clients."""
        for worker in range(self.scoreboard.workers):
            threading.Thread(target=self._work, args=(worker,), daemon=True).start()

    def stop(self) -> None:
        """Stop accepting connections. Workers finish their current requests."""
        self._stopped = True
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the worker that waits for a connection
            listener.close()

    def _work(self, worker: int) -> None:
        while accepted := self._accept():
            connection, peer = accepted
            self.scoreboard.set_state(worker, READING)
            # A client may disconnect at any time
            with contextlib.suppress(OSError), connection:
                _RequestHandler(connection, peer, self, worker)
            self.scoreboard.set_state(worker, WAITING)

    def _accept(self) -> tuple[socket.socket, Any] | None:
        """Return the next connection, or None if the server has stopped."""
        with self._turn:
            while not self._stopped:
                # The client disconnected, or the listeners were closed
                with contextlib.suppress(OSError, ValueError):
                    ready, _, _ = select.select(self._listeners, (), ())
                    return ready[0].accept()
        return None


class _RequestHandler(BaseHTTPRequestHandler):
    """A handler that serves one request on one connection."""

    timeout = READ_TIMEOUT
    server_version = "lbdns-demo"
    sys_version = ""

    def __init__(self, connection: socket.socket, peer: Any, web: DemoWebServer, worker: int) -> None:
        self._web, self._worker = web, worker
        super().__init__(connection, peer, web)  # type: ignore[arg-type]  # the base class only stores the server

    def do_GET(self) -> None:
        started = time.monotonic()
        self._web.scoreboard.set_state(self._worker, WRITING)
        path, _, rest = self.path.partition("?")
        query = parse_qs(rest, keep_blank_values=True)
        match path:
            case "/":
                sent = self._send(200, self._page())
            case "/work":
                sent = self._work(query.get("ms", ["10"])[0])
            case "/sleep":
                sent = self._sleep(query.get("s", ["1"])[0])
            case "/server-status":
                page = self._web.scoreboard.page(started - self._web.started, os.times(), os.getloadavg())
                plain = "auto" in query
                sent = self._send(200, page if plain else f"<pre>{page}</pre>", "text/plain" if plain else "text/html")
            case _:
                sent = self._send(404, "<p>Available pages: /, /work?ms=N, /sleep?s=N and /server-status?auto.\n")
        self._web.scoreboard.count(sent, time.monotonic() - started)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _work(self, milliseconds: str) -> int:
        if not (re.fullmatch(r"[0-9]{1,5}", milliseconds) and int(milliseconds) <= MAX_WORK):
            return self._send(400, f"<p>ms must be a number of milliseconds from 0 to {MAX_WORK}.\n")
        burn(int(milliseconds) / 1000)
        return self._send(200, f"<p>{html.escape(self._web.name)} worked {milliseconds} ms.\n")

    def _sleep(self, seconds: str) -> int:
        if not re.fullmatch(r"[0-9](\.[0-9]{1,3})?", seconds):
            return self._send(400, "<p>s must be a number of seconds from 0 to 9.999.\n")
        time.sleep(float(seconds))
        return self._send(200, f"<p>{html.escape(self._web.name)} slept {seconds} s.\n")

    def _page(self) -> str:
        name, host = html.escape(self._web.name), html.escape(self.headers.get("Host", "no host"))
        return (
            f"<!doctype html>\n<title>{name}</title>\n<h1>{name}</h1>\n"
            f"<p>You asked for {host}; {name} answered from {html.escape(str(self.connection.getsockname()[0]))}.\n"
            "<p><a href='/work?ms=200'>Generate some load</a>, or view the "
            "<a href='/server-status?auto'>counters</a>.\n"
        )

    def _send(self, status: int, text: str, kind: str = "text/html") -> int:
        """Send a response and return the length of its body in bytes."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command == "HEAD":
            return 0
        self.wfile.write(body)
        return len(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, so that only the demo's own output appears on the terminal."""


def burn(seconds: float) -> None:
    """Consume CPU time in this thread, as a program that generates a dynamic page would."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def listen(endpoint: Endpoint) -> socket.socket:
    """Return a listening TCP socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    listener = socket.create_server((endpoint.host, endpoint.port), family=family, backlog=BACKLOG)
    listener.setblocking(False)  # accept must not block if the connection is already gone
    return listener


def main() -> None:
    """Run the web server with command-line options such as ``--name bilbo --listen 127.0.0.16:8080``."""
    parser = argparse.ArgumentParser(prog="python -m lbdns.demo.webserver", description=__doc__)
    parser.add_argument("--name", required=True, help="name to show on the server's pages")
    parser.add_argument(
        "--listen", action="append", required=True, metavar="ADDRESS:PORT", help="address to listen on; can be repeated"
    )
    parser.add_argument(
        "--workers", type=int, default=WORKERS, help="number of requests served concurrently (%(default)s)"
    )
    options = parser.parse_args()
    with stop_signals() as stop:
        try:
            listeners = [listen(parse_listen(text, HTTP_PORT)) for text in options.listen]
        except (OSError, ValueError) as error:
            sys.exit(f"web server {options.name}: {error}")
        sys.setswitchinterval(_SWITCH_INTERVAL)
        web = DemoWebServer(options.name, listeners, options.workers)
        web.start()
        stop.wait()
        web.stop()


if __name__ == "__main__":
    main()
