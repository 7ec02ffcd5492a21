"""Checks that a lab's machines can reach one another but nothing else, and that their network is removed completely."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import CLIENT_ADDRESSES, LabFarm, LabMachine, WebHost, machines
from lbdns_tools.lab.machines import network_namespaces
from lbdns_tools.lab.machines.leftover_cleanup import new_id
from lbdns_tools.lab.machines.network_namespaces import inside, namespace_of
from lbdns_tools.lab.machines.placed_machine import ETC, NAMESPACES
from tests.needs import needs, program

FARM = LabFarm((WebHost("gandalf", 0.4),), proxies=("haproxy",))
MACHINES = machines(FARM)
HUB, DNS, WEB, PROXY, CLIENT = MACHINES
PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
pytestmark = needs(programs=("ip", "ping"), root=True, namespaces=True, ipv6=True)


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    id = new_id()
    try:
        network_namespaces.build(id, MACHINES)
        yield id
    finally:
        network_namespaces.remove(id)


def run(id: str, machine: LabMachine, *command: str) -> subprocess.CompletedProcess[str]:
    words = (program("ip"), "netns", "exec", namespace_of(id, machine.name), *command)
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def namespaces(id: str) -> list[str]:
    return sorted(path.name for path in NAMESPACES.glob(f"*{id}*"))


def test_a_namespace_each(lab: str) -> None:
    assert namespaces(lab) == sorted(f"lbdns-{lab}-{machine.name}" for machine in MACHINES)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_everybody_is_reached(lab: str, machine: LabMachine) -> None:
    assert len(CLIENT.addresses4) == CLIENT_ADDRESSES
    for other in (CLIENT, WEB):
        for address in (*machine.addresses4, machine.address6):
            done = run(lab, other, program("ping"), "-c1", "-W5", "-q", address)
            assert done.returncode == 0, (other.name, address, done.stdout)


@pytest.mark.parametrize("address", ["192.0.2.1", "8.8.8.8", "2001:db8::1"])
@pytest.mark.parametrize("machine", [CLIENT, HUB], ids=["client", "hub"])
def test_there_is_no_way_out(lab: str, machine: LabMachine, address: str) -> None:
    # It is said at once: nobody has to wait for a time-out
    done = run(lab, machine, program("ping"), "-c1", "-W20", address)
    assert done.returncode != 0
    assert "nreachable" in done.stdout or "No route to host" in done.stderr, done


def test_the_hub_has_no_other_interface(lab: str) -> None:
    found = inside(namespace_of(lab, HUB.name), socket.if_nameindex)
    assert sorted(name for _, name in found) == ["hub", "lo", *(f"port{n}" for n in range(1, len(MACHINES)))]


def test_the_hub_is_the_gateway(lab: str) -> None:
    assert "default via 198.18.0.1 dev eth0" in run(lab, CLIENT, program("ip"), "route").stdout
    assert "default via fd00:198:18::1 dev eth0" in run(lab, CLIENT, program("ip"), "-6", "route").stdout


def test_own_address_comes_first(lab: str) -> None:
    shown = run(lab, CLIENT, program("ip"), "route", "get", WEB.address).stdout
    assert f"src {CLIENT.address} " in shown


def test_the_loopback_works(lab: str) -> None:
    for address in ("127.0.0.1", "::1"):
        assert run(lab, WEB, program("ping"), "-c1", "-W5", address).returncode == 0


@pytest.mark.parametrize("machine", [CLIENT, PROXY], ids=["client", "proxy"])
def test_ports_for_many_connections(lab: str, machine: LabMachine) -> None:
    ports = inside(namespace_of(lab, machine.name), PORTS.read_text)
    assert ports.split() == ["1024", "65535"]


def test_a_server_keeps_the_kernels_ports(lab: str) -> None:
    assert inside(namespace_of(lab, WEB.name), PORTS.read_text).split() != ["1024", "65535"]


def test_inside_and_back(lab: str) -> None:
    def bind() -> socket.socket:
        return socket.create_server((WEB.address, 80))

    with inside(namespace_of(lab, WEB.name), bind) as server:
        assert server.getsockname() == (WEB.address, 80)
        connection = inside(
            namespace_of(lab, CLIENT.name), lambda: socket.create_connection((WEB.address, 80), timeout=60)
        )
        connection.close()
    with pytest.raises(OSError, match="Cannot assign requested address"):
        bind()


def test_what_fails_inside_is_raised(lab: str) -> None:
    with pytest.raises(ZeroDivisionError):
        inside(namespace_of(lab, WEB.name), lambda: 1 // 0)


def test_nothing_stays() -> None:
    id = new_id()
    network_namespaces.build(id, (HUB, DNS))
    (ETC / namespace_of(id, "dns")).mkdir(parents=True)
    removed = network_namespaces.remove(id)
    assert removed == [
        f"network namespace lbdns-{id}-dns", f"network namespace lbdns-{id}-hub", f"/etc/netns/lbdns-{id}-dns",
    ]  # fmt: skip
    assert namespaces(id) == []
    assert not (ETC / namespace_of(id, "dns")).exists()
    assert network_namespaces.remove(id) == []


def test_half_a_network_is_removed() -> None:
    id = new_id()
    with pytest.raises(LbdnsError, match=r"^cannot build the lab's network: .*exist"):
        network_namespaces.build(id, (HUB, WEB, WEB))
    assert len(network_namespaces.remove(id)) == 2
    assert namespaces(id) == []


def test_a_lab_with_another_id_is_left_alone(lab: str) -> None:
    other = f"{lab[:-1]}{(int(lab[-1], 16) + 1) % 16:x}"
    assert network_namespaces.remove(other) == []
    assert len(namespaces(lab)) == len(MACHINES)


def test_a_machine_is_added_and_removed_alone(lab: str) -> None:
    new = LabMachine("web-1", "web", ("198.19.0.1",), "fd00:198:18::1:1")
    network_namespaces.add(lab, new, HUB)
    try:
        for machine, address in ((CLIENT, new.address), (CLIENT, new.address6), (new, WEB.address)):
            done = run(lab, machine, program("ping"), "-c1", "-W5", "-q", address)
            assert done.returncode == 0, (machine.name, address, done.stdout)
    finally:
        assert network_namespaces.remove_machine(lab, "web-1")
    assert not network_namespaces.remove_machine(lab, "web-1")
    test_a_namespace_each(lab)


def test_a_machine_needs_a_lab() -> None:
    with pytest.raises(LbdnsError, match="there is no lab 000000"):
        network_namespaces.add("000000", WEB, HUB)
