"""Tests of receive buffers: they grow to the wanted size or to the system's limit, and never shrink."""

from __future__ import annotations

import socket

import pytest

from lbdns.sockets import binding
from lbdns.sockets.binding import enlarge

MEGABYTE = 1 << 20


def size(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


@pytest.fixture
def without_privilege(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_SO_RCVBUFFORCE", 9999)  # fails, as the option does without CAP_NET_ADMIN


def largest() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * MEGABYTE)
        return size(sock)


@pytest.mark.usefixtures("without_privilege")
def test_the_system_limits_the_size() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        enlarge(sock, 16_384)
        assert size(sock) == 16_384
        enlarge(sock, 64 * MEGABYTE)
        assert size(sock) == largest()


@pytest.mark.usefixtures("without_privilege")
def test_an_inherited_socket_keeps_a_larger_buffer() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        before = size(sock)
        enlarge(sock, before // 2)
        assert size(sock) == before


def test_a_buffer_beyond_the_limit_stays_without_privilege(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        enlarge(sock, 4 * MEGABYTE)  # beyond the limit only as root
        before = size(sock)
        monkeypatch.setattr(binding, "_SO_RCVBUFFORCE", 9999)
        enlarge(sock, 8 * MEGABYTE)
        assert size(sock) == max(before, min(8 * MEGABYTE, largest()))
