"""A small HTTP server that serves given documents, and an event stream that tests can interrupt."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from lbdns_tools.free_ports import free_port
from tests.commands.terminal.documents import explanation, status


class StubServer:
    """``paths``: those requested. ``documents`` maps each path to its document, or to an HTTP error status."""

    def __init__(self, port: int = 0) -> None:
        self.paths: list[str] = []
        self.documents: dict[str, Any] = {
            "/api/v1/status": status(), "/api/v1/log": {"events": []}, "/api/v1/explain": explanation(),
        }  # fmt: skip
        self._streams: list[queue.SimpleQueue[bytes | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.paths.append(self.path)
                path = urlsplit(self.path).path
                if path == "/api/v1/events":
                    outer._stream(self)
                    return
                found = outer.documents[path]
                body = json.dumps({"error": "refused"} if isinstance(found, int) else found).encode()
                self.send_response(found if isinstance(found, int) else 404 if "error" in found else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port or free_port()), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def streams(self) -> int:
        return len(self._streams)

    def _stream(self, handler: BaseHTTPRequestHandler) -> None:
        waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        self._streams.append(waiting)
        while (data := waiting.get()) is not None:
            handler.wfile.write(data)

    def send(self, name: str, document: Any) -> None:
        """Send an event to every open stream."""
        for waiting in self._streams:
            waiting.put(f"event: {name}\ndata: {json.dumps(document)}\n\n".encode())

    def cut(self) -> None:
        """End every stream."""
        for waiting in self._streams:
            waiting.put(None)
        self._streams.clear()

    def close(self) -> None:
        self.cut()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def stub_server(port: int = 0) -> Iterator[StubServer]:
    server = StubServer(port)
    try:
        yield server
    finally:
        server.close()
