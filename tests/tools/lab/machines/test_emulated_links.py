"""Checks that emulated links delay and drop packets in one direction, and only those for the given machines."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost
from lbdns_tools.lab.machines.emulated_links import EmulatedLinks, LinkCondition
from lbdns_tools.lab.machines.network_namespaces import inside
from tests.needs import needs
from tests.tools.lab.lab_machines import NEEDED, Machines, network_of

pytestmark = needs(programs=NEEDED, root=True, namespaces=True, cpu_groups=True)
PATIENCE_S = 20.0
DELAY_S = 0.15
CLIENT, NEAR, FAR = "client1", "near", "far"


@pytest.fixture(scope="module")
def lab() -> Iterator[Machines]:
    with network_of(LabFarm((WebHost(NEAR, 0.5), WebHost(FAR, 0.5)))) as machines:
        yield machines


def bound(lab: Machines, name: str) -> socket.socket:
    """Return a UDP socket on a machine, bound to the machine's address."""

    def make() -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((lab.machines[name].address, 0))
        sock.settimeout(PATIENCE_S)
        return sock

    return inside(lab.places[name].namespace, make)


def took(sender: socket.socket, receiver: socket.socket) -> float:
    """Return the time (s) that a datagram takes from one socket to another."""
    began = time.monotonic()
    sender.sendto(b"x", receiver.getsockname())
    receiver.recv(10)
    return time.monotonic() - began


def test_only_packets_for_the_given_machine_are_delayed(lab: Machines) -> None:
    with EmulatedLinks(lab.id) as links, bound(lab, CLIENT) as client, bound(lab, NEAR) as near, bound(lab, FAR) as far:
        links.set(lab.machines[CLIENT], [lab.machines[FAR]], LinkCondition(DELAY_S))
        assert took(client, far) >= DELAY_S
        assert min(took(client, near) for _ in range(5)) < DELAY_S
        assert min(took(far, client) for _ in range(5)) < DELAY_S
        links.set(lab.machines[CLIENT], [lab.machines[FAR]], LinkCondition())
        assert min(took(client, far) for _ in range(5)) < DELAY_S
    with bound(lab, CLIENT) as client, bound(lab, FAR) as far:
        assert min(took(client, far) for _ in range(5)) < DELAY_S


def test_a_delay_shorter_than_a_millisecond(lab: Machines) -> None:
    with EmulatedLinks(lab.id) as links, bound(lab, CLIENT) as client, bound(lab, FAR) as far:
        links.set(lab.machines[CLIENT], [lab.machines[FAR]], LinkCondition(0.0002))
        assert 0.0002 <= min(took(client, far) for _ in range(50)) < 0.001


def test_a_machine_whose_links_are_set_while_others_are_in_use(lab: Machines) -> None:
    with EmulatedLinks(lab.id) as links, bound(lab, CLIENT) as client, bound(lab, FAR) as far:
        links.set(lab.machines[CLIENT], [lab.machines[FAR]], LinkCondition(DELAY_S))
        assert took(client, far) >= DELAY_S
        links.set(lab.machines[FAR], [lab.machines[CLIENT]], LinkCondition(DELAY_S))
        assert took(far, client) >= DELAY_S


def test_a_link_that_is_cut_in_one_direction(lab: Machines) -> None:
    with EmulatedLinks(lab.id) as links, bound(lab, CLIENT) as client, bound(lab, FAR) as far:
        links.set(lab.machines[CLIENT], [lab.machines[FAR]], LinkCondition(loss=1.0))
        far.settimeout(0.2)
        client.sendto(b"lost", far.getsockname())
        with pytest.raises(TimeoutError):
            far.recv(10)
        assert took(far, client) < PATIENCE_S


def test_a_share_of_the_packets_is_lost(lab: Machines) -> None:
    with EmulatedLinks(lab.id) as links, bound(lab, CLIENT) as client, bound(lab, FAR) as far:
        links.set(lab.machines[CLIENT], [lab.machines[FAR]], LinkCondition(loss=0.3))
        for number in range(400):
            client.sendto(b"x", far.getsockname())
            time.sleep(0.001 if number % 20 == 0 else 0.0)  # the device's queue holds 500 packets
        received = 0
        far.settimeout(1.0)
        try:
            while True:
                far.recv(10)
                received += 1
        except TimeoutError:
            pass
        assert 220 < received < 340  # 280 expected, with a standard deviation of 9


def test_a_connection_carries_all_bytes(lab: Machines) -> None:
    size = 300_000
    with (
        EmulatedLinks(lab.id) as links,
        inside(lab.places[FAR].namespace, lambda: socket.create_server((lab.machines[FAR].address, 0))) as listener,
    ):
        links.set(lab.machines[CLIENT], [lab.machines[FAR]], LinkCondition(0.02))
        address = listener.getsockname()
        began = time.monotonic()
        with inside(
            lab.places[CLIENT].namespace, lambda: socket.create_connection(address, timeout=PATIENCE_S)
        ) as client:
            assert time.monotonic() - began >= 0.02
            client.sendall(bytes(size))
            client.shutdown(socket.SHUT_WR)
            server, _ = listener.accept()
            with server:
                server.settimeout(PATIENCE_S)
                received = 0
                while data := server.recv(65_536):
                    received += len(data)
        assert received == size
