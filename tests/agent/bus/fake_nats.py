"""A fake NATS server for tests, which runs in the test's own thread and does only what the test wants."""

from __future__ import annotations

import socket

INFO = b'INFO {"server_id":"fake","max_payload":1048576}\r\n'


class FakeNats:
    """Accepts one connection at a time. ``lines`` are the lines that the client has sent on the current one."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.answers_pings = True  # without it, the server is silent after INFO
        self.refuses_reports = False
        self.refuses_users = False
        self.lines: list[bytes] = []
        self._connection: socket.socket | None = None
        self._unread = b""

    @property
    def payloads(self) -> list[bytes]:
        """The reports that have arrived on the current connection."""
        return [after for before, after in zip(self.lines, self.lines[1:]) if before.startswith(b"PUB ")]

    def step(self) -> None:
        """Do everything that is possible without waiting."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            pass
        else:
            self.disconnect()
            connection.setblocking(False)
            connection.sendall(INFO)
            self._connection, self._unread, self.lines = connection, b"", []
            self.connections += 1
        if self._connection:
            self._read(self._connection)

    def disconnect(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        self.disconnect()
        self._listener.close()

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.disconnect()
            return
        *lines, self._unread = (self._unread + data).split(b"\r\n")
        for line in lines:
            self.lines.append(line)
            if line.startswith(b"CONNECT ") and self.refuses_users:
                connection.sendall(b"-ERR 'Authorization Violation'\r\n")
                self.disconnect()
                return
            if line.startswith(b"PUB ") and self.refuses_reports:
                connection.sendall(b"-ERR 'Permissions Violation for Publish to \"x\"'\r\n")
            if line == b"PING" and self.answers_pings:
                connection.sendall(b"PONG\r\n")
