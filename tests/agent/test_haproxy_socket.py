"""Reading HAProxy's statistics from a socket, with servers that reply as HAProxy and otherwise."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.webserver.haproxy_socket import COMMAND, show_statistics
from tests.agent.waiting import run_to_end

LARGEST = 64 * 1024


@contextlib.contextmanager
def replying(path: str, *parts: bytes) -> Iterator[list[bytes]]:
    """Run a server that answers one command with ``parts`` and closes the connection. Yields the received command."""
    received: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def reply() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                received.append(connection.recv(100))
                for part in parts:
                    connection.sendall(part)

        thread = threading.Thread(target=reply, daemon=True)
        thread.start()
        yield received
        thread.join(20)


@pytest.mark.parametrize(
    "parts", [(b"# pxname,svname\n", b"www,FRONTEND\n\n"), (), (b"x" * LARGEST,)], ids=["table", "empty", "largest"]
)
def test_the_whole_reply_is_returned(tmp_path: Path, parts: tuple[bytes, ...]) -> None:
    path = str(tmp_path / "s")
    with replying(path, *parts) as received:
        assert run_to_end(show_statistics(path, LARGEST)) == b"".join(parts)
    assert received == [COMMAND]


def test_a_reply_that_is_too_long_is_rejected(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with replying(path, b"x" * (LARGEST + 1)), pytest.raises(MissingValueError, match=f"{path}: .*64 KiB"):
        run_to_end(show_statistics(path, LARGEST))


def test_a_socket_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with pytest.raises(MissingValueError, match=f"{path}: .*stats socket {path}"):
        run_to_end(show_statistics(path, LARGEST))
