from __future__ import annotations

import multiprocessing
import socket

import pytest

from lbdns_tools.ports import free_port, free_ports


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_can_be_had_of_both_kinds(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("0.0.0.0", free_port()))


def test_no_port_is_given_twice() -> None:
    given = [*free_ports(20), *free_ports(20)]
    assert len(set(given)) == 40


def test_no_other_process_is_given_the_same() -> None:
    mine = set(free_ports(500))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert mine.isdisjoint(pool.apply(free_ports, (500,)))
