"""Small web servers for tests, in threads or in processes; some of the servers are faulty."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

PAGE = b"Total Accesses: %d\nBusyWorkers: 2\nIdleWorkers: 8\nScoreboard: WW________\n"

Handler = Callable[[socket.socket, bytes], None]


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """Return a complete HTTP response."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers])
    return head.encode() + b"\r\n\r\n" + body


@contextlib.contextmanager
def web_server(handle: Handler, address: str = "127.0.0.1") -> Iterator[str]:
    """Run a server that calls ``handle`` with each connection and its request. Yields its URL."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server((address, 0), backlog=50))
        stopping = threading.Event()
        connections: list[socket.socket] = []

        def serve() -> None:
            while not stopping.is_set():
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connections.append(connection)
                threading.Thread(target=handle_quietly, args=(connection,), daemon=True).start()

        def handle_quietly(connection: socket.socket) -> None:
            with contextlib.suppress(OSError):
                handle(connection, connection.recv(65_536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://{address}:{listening.getsockname()[1]}/server-status"
        finally:
            stopping.set()
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # ends accept()
            thread.join(5)
            for connection in connections:
                connection.close()


def counting() -> Handler:
    """Return a handler that serves a status page with a counter that increases on each request."""
    count = 0

    def handle(connection: socket.socket, request: bytes) -> None:
        nonlocal count
        count += 1
        connection.sendall(answer(PAGE % count))
        connection.close()

    return handle


def hanging(connection: socket.socket, request: bytes) -> None:
    """Send nothing, and keep the connection open until the server stops."""


PARENT = """
import os, signal, socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[3])), backlog=200)
children = []
for _ in range(int(sys.argv[2])):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    children.append(pid)
print(server.getsockname()[1], *children, flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class ForkingServer:
    """A listening process that runs the statements it receives. As in Apache, its children inherit the socket."""

    def __init__(self, children: int = 2, address: str = "127.0.0.1", port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, address, str(children), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port, *self.children = map(int, self.process.stdout.readline().split())

    @property
    def pid(self) -> int:
        return self.process.pid

    def do(self, *statements: str) -> None:
        """Make the parent process run Python statements, and wait until they have finished."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for statement in statements:
            self.process.stdin.write(statement + "\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "done\n"

    def __enter__(self) -> ForkingServer:
        return self

    def __exit__(self, *error: object) -> None:
        for child in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, 9)
        self.process.kill()
        for end in (self.process.stdin, self.process.stdout):
            assert end is not None
            with contextlib.suppress(BrokenPipeError):
                end.close()
        self.process.wait()
