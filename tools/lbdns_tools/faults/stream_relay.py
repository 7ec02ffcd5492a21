"""A TCP relay between programs and a server that can stop passing bytes, or pass them slowly."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Final, Self

PIECE: Final = 4096  # octets per read
STEP_S: Final = 0.02  # s between two checks whether a relay is still cut
ACCEPT_S: Final = 0.1  # s between two checks whether the with statement has ended
CONNECT_S: Final = 1.0  # s until the server has accepted a connection


class StreamRelay:
    """A relay that forwards connections to a local port for the duration of a with statement.

    While ``is_cut`` is set, no byte passes, and neither end is told, as if the network between them had failed. The
    bytes pass later, as TCP sends them again. ``rate`` is the maximum number of octets per second to each client (0: no
    limit). Both settings can be changed at any time.
    """

    def __init__(self, to_port: int) -> None:
        self.is_cut = False
        self.rate = 0.0
        self._to = ("127.0.0.1", to_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(ACCEPT_S)
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for sock in self._sockets.copy():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:  # the first one starts the others, and ends before them
            thread.join()
        self._listener.close()

    def _start(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, name="stream-relay", daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _wait_while_cut(self) -> None:
        while self.is_cut and not self._over.is_set():
            time.sleep(STEP_S)

    def _accept(self) -> None:
        while not self._over.is_set():
            self._wait_while_cut()
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            try:
                server = socket.create_connection(self._to, CONNECT_S)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            client.settimeout(None)
            self._sockets |= {client, server}
            self._start(self._forward, client, server, False)
            self._start(self._forward, server, client, True)

    def _forward(self, source: socket.socket, to: socket.socket, is_limited: bool) -> None:
        """Forward bytes until an end closes the connection. Then close this direction of both."""
        with contextlib.suppress(OSError):
            while not self._over.is_set():
                data = source.recv(PIECE)
                self._wait_while_cut()
                if not data:
                    break
                to.sendall(data)
                if is_limited and self.rate:
                    self._over.wait(len(data) / self.rate)
        self._wait_while_cut()
        for sock, how in ((to, socket.SHUT_WR), (source, socket.SHUT_RD)):
            with contextlib.suppress(OSError):
                sock.shutdown(how)
        if is_limited:  # the server has gone
            for sock in (source, to):
                self._sockets.discard(sock)
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)  # ends a read in the other thread
                sock.close()
