"""Tests of the control client: it waits while too many clients connect at the same time."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from lbdns.client import control_client
from lbdns.client.control_client import send_command
from lbdns_shared.errors import LbdnsError


def fill(path: Path, listening: socket.socket) -> list[socket.socket]:
    """Connect until the queue of new connections is full, and return the connections."""
    listening.bind(str(path))
    listening.listen(1)
    connected: list[socket.socket] = []
    while True:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            sock.connect(str(path))
        except BlockingIOError:
            sock.close()
            return connected
        connected.append(sock)


def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        others = fill(tmp_path / "c", listening)

        def serve() -> None:
            for _ in others:
                listening.accept()[0].close()
            with listening.accept()[0] as client:
                client.recv(4096)
                client.sendall(b'{"ok": true}\n')

        server = threading.Thread(target=serve)
        threading.Timer(0.1, server.start).start()
        assert send_command(tmp_path / "c", "reload") == {"ok": True}
        server.join(60)
        for sock in others:
            sock.close()


def test_a_queue_that_stays_full_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_client, "CONNECT_TIMEOUT", 0.1)
    with socket.socket(socket.AF_UNIX) as listening:
        others = fill(tmp_path / "c", listening)
        with pytest.raises(LbdnsError, match="Resource temporarily unavailable"):
            send_command(tmp_path / "c", "reload")
        for sock in others:
            sock.close()
