from __future__ import annotations

import socket

import pytest

from lbdns_tools.bench.measuring import free_port, percentile


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.501, 51), (0.99, 99), (1.0, 100)])
def test_percentiles_of_one_to_a_hundred(share: float, value: int) -> None:
    assert percentile(range(100, 0, -1), share) == value


def test_no_values_have_no_percentile() -> None:
    assert percentile([], 0.5) == 0.0


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_free_port_can_be_had(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.1", free_port(kind)))
