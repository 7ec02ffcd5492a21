"""Tests of the duplicates of a server's listening sockets."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lbdns.server.server_sockets import ServerSockets
from lbdns.sockets.inherited_sockets import InheritedSocket
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

HERE = Endpoint("127.0.0.1", 5353)


class Part:
    """A part of a server with one socket. ``duplicate`` fails if no descriptors are left."""

    def __init__(self, is_failing: bool = False) -> None:
        self.sock, self.copies, self._is_failing = socket.socket(), list[socket.socket](), is_failing

    def dup(self) -> socket.socket:
        if self._is_failing:
            raise OSError(errno.EMFILE, "Too many open files")
        self.copies.append(self.sock.dup())
        return self.copies[-1]


@pytest.fixture
def parts() -> Iterator[list[Part]]:
    found = [Part() for _ in range(4)]
    yield found
    for part in found:
        for sock in (part.sock, *part.copies):
            sock.close()


def sockets_of(dns: Part, reports: Part, web: Part, control: Part) -> ServerSockets:
    asked = SimpleNamespace(purpose="udp", asked=HERE, sock=dns)
    return ServerSockets(
        cast(Any, SimpleNamespace(sockets=SimpleNamespace(inheritable=lambda: [asked]))),
        cast(Any, SimpleNamespace(duplicates=lambda: [(HERE, reports.dup())])),
        cast(Any, SimpleNamespace(duplicate=lambda: (HERE, web.dup()))),
        cast(Any, SimpleNamespace(duplicate=lambda: (Path("/run/control"), control.dup()))),
    )


def test_every_socket_is_duplicated(parts: list[Part]) -> None:
    found = sockets_of(*parts).duplicates()
    assert [(each.purpose, each.asked) for each in found] == [
        ("udp", HERE), ("reports", HERE), ("web", HERE), ("control", Endpoint("/run/control", 0)),
    ]  # fmt: skip
    assert [each.sock for each in found] == [part.copies[0] for part in parts]
    assert all(isinstance(each, InheritedSocket) for each in found)


def test_without_descriptors_no_duplicate_stays_open(parts: list[Part]) -> None:
    parts[3].sock.close()
    parts[3] = Part(is_failing=True)
    with pytest.raises(LbdnsError, match="cannot be duplicated: Too many open files"):
        sockets_of(*parts).duplicates()
    assert [copy.fileno() for part in parts for copy in part.copies] == [-1, -1, -1]


async def test_a_store_that_is_off_duplicates_nothing(parts: list[Part], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FDSTORE", raising=False)
    await sockets_of(*parts).store()
    assert not any(part.copies for part in parts)
