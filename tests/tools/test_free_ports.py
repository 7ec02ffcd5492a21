from __future__ import annotations

import multiprocessing
import socket

import pytest

from lbdns_tools.free_ports import free_port, free_ports


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_is_free_for_tcp_and_udp(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("0.0.0.0", free_port()))


def test_no_port_is_returned_twice() -> None:
    ports = [*free_ports(20), *free_ports(20)]
    assert len(set(ports)) == 40


def test_no_other_process_receives_the_same_port() -> None:
    mine = set(free_ports(500))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert mine.isdisjoint(pool.apply(free_ports, (500,)))
