"""Checks that the agreement benchmark's parts run on the loopback, or in namespaces of their own with lossy links."""

from __future__ import annotations

import socket
import subprocess

import pytest

from lbdns_tools.bench.agreement_network import AgreementNetwork, network
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.lab.machines.placed_machine import NAMESPACES
from tests.needs import needs

PATIENCE_S = 20.0
NAMES = ("bus", "ns1")


def bound(places: AgreementNetwork, name: str) -> socket.socket:
    place = places.places[name]

    def make() -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((place.address, 0))
        return sock

    return place.call(make)


def test_on_the_loopback_no_packets_can_be_lost() -> None:
    with network(NAMES, False) as places:
        assert [place.address for place in places.places.values()] == ["127.0.0.1", "127.0.0.1"]
        assert places.places["bus"].command("true") == ["true"]
        with pytest.raises(BenchmarkError, match="add --namespaces"):
            places.lose("bus", "ns1", 1.0)


@needs(programs=("nsenter",), root=True, namespaces=True, cpu_groups=True)
def test_a_cut_between_two_namespaces() -> None:
    with network(NAMES, True) as places, bound(places, "bus") as bus, bound(places, "ns1") as server:
        server.settimeout(PATIENCE_S)
        bus.settimeout(PATIENCE_S)
        bus.sendto(b"1", server.getsockname())
        assert server.recv(10) == b"1"
        places.lose("bus", "ns1", 1.0)
        bus.sendto(b"2", server.getsockname())
        server.sendto(b"3", bus.getsockname())
        assert bus.recv(10) == b"3"
        places.lose("bus", "ns1", 0.0)
        bus.sendto(b"4", server.getsockname())
        assert server.recv(10) == b"4"
        found = subprocess.run(places.places["ns1"].command("cat", "/proc/net/fib_trie"), capture_output=True,
                               text=True, check=True)  # fmt: skip
        assert places.places["ns1"].address in found.stdout
        assert places.places["bus"].address not in found.stdout
        namespace = NAMESPACES / places.places["ns1"].namespace
        assert namespace.exists()
    assert not namespace.exists()
