"""Tests of a running lab: its components, its operations, and its complete removal."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.query
import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import HTTP_PORT, LabFarm, WebHost
from lbdns_tools.lab.machines.control_groups import TOP, find_hierarchies
from lbdns_tools.lab.machines.leftover_cleanup import labs
from lbdns_tools.lab.machines.network_namespaces import inside, namespace_of
from lbdns_tools.lab.machines.placed_machine import ETC, NAMESPACES, PlacedMachine
from lbdns_tools.lab.machines.server_probes import answers_dns, get
from lbdns_tools.lab.programs.balancer_setup import PASSED_THROUGH, TERMINATED, BalancerSetup
from lbdns_tools.lab.running_lab import Lab
from tests.needs import needs
from tests.tools.lab.lab_machines import needs_a_lab

FARM = LabFarm(
    (WebHost("slow", 0.1, workers=4), WebHost("fast", 0.3, workers=4)), clients=2, proxies=("haproxy",), resolvers=1
)
PATIENCE = 60.0  # s
FAR_S = 0.3  # of a round trip between two sites


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(FARM) as built:
        yield built


def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def state(lab: Lab, host: str) -> str:
    return str(lab.members()[host]["state"])


@needs_a_lab
def test_what_it_is_made_of(lab: Lab) -> None:
    assert set(lab.places) == {"hub", "dns", "slow", "fast", "haproxy", "resolver1", "client1", "client2"}
    assert set(lab.groups) == set(lab.places) - {"hub"} | {"slow-agent", "fast-agent"}
    assert [place.machine.name for place in lab.clients()] == ["client1", "client2"]
    assert all(group.cpu_seconds() > 0 for name, group in lab.groups.items() if name in ("dns", "slow", "fast-agent"))
    assert {host: member["metrics"]["cpu_count"] for host, member in lab.members().items()} == {
        "slow": 0.1,
        "fast": 0.3,
    }
    with pytest.raises(LbdnsError, match="no web host 'slwo'"):
        lab.host("slwo")


@needs_a_lab
def test_a_web_server_dies_and_comes_back(lab: Lab) -> None:
    lab.stop_web("slow", kill=True)
    assert get(lab.places["slow"], "/") is None
    lab.start_web("slow")
    found = get(lab.places["slow"], "/")
    assert found is not None
    assert found[0] == 200
    lab.settle()


@needs_a_lab
def test_a_sysctl_is_set_for_as_long_as_it_is_wanted(lab: Lab) -> None:
    def values() -> dict[str, str]:
        path = Path("/proc/sys/net/core/somaxconn")
        return {name: inside(lab.places[name].namespace, path.read_text).strip() for name in ("slow", "dns")}

    before = values()
    assert before["slow"] != "77"
    with lab.sysctls("web", {"core/somaxconn": "77"}):
        assert values() == {**before, "slow": "77"}
        found = get(lab.places["slow"], "/")
        assert found is not None
        assert found[0] == 200
    assert values() == before
    with pytest.raises(LbdnsError, match="cannot set core/nonsense"), lab.sysctls("web", {"core/nonsense": "1"}):
        pytest.fail("a sysctl that does not exist was set")


@needs_a_lab
def test_an_agent_dies_and_comes_back(lab: Lab) -> None:
    lab.stop_agent("fast", kill=True)
    eventually(lambda: state(lab, "fast") == "silent", "who says nothing is silent")
    lab.start_agent("fast")
    eventually(lambda: state(lab, "fast") == "usable", "and is usable again")


@needs_a_lab
def test_a_proxy_is_there_for_as_long_as_it_is_wanted(lab: Lab) -> None:
    with lab.proxy(BalancerSetup("haproxy")) as address:
        assert address == lab.machines["haproxy"].address
        found = get(lab.places["haproxy"], "/")
        assert found is not None
        assert found[0] == 200
    assert get(lab.places["haproxy"], "/") is None


@needs(programs=("openssl",))
@needs_a_lab
def test_hosts_and_balancers_serve_https() -> None:
    host = WebHost("only", 0.5, workers=4)
    with Lab(LabFarm((host,), proxies=("haproxy",), tls=True)) as lab:
        assert get(lab.places["only"], "/1k.html", tls=True) == get(lab.places["only"], "/1k.html")
        for tls in (TERMINATED, PASSED_THROUGH):
            with lab.proxy(BalancerSetup("haproxy", tls=tls)):
                found = get(lab.places["haproxy"], "/1k.html", tls=True)
                assert found is not None
                assert (found[0], len(found[1])) == (200, 1024)


@needs_a_lab
def test_clients_ask_whom_they_are_told_to(lab: Lab) -> None:
    def asked() -> list[str]:
        paths = [ETC / place.namespace / "resolv.conf" for place in lab.clients()]
        return [path.read_text().splitlines()[0].split()[1] for path in paths]

    dns, resolver = lab.machines["dns"].address, lab.machines["resolver1"].address
    assert asked() == [dns, dns]
    with lab.resolve_by("resolvers"):
        assert asked() == [resolver, resolver]
        assert answers_dns(lab.places["resolver1"], "best.hobbit")
    assert asked() == [dns, dns]


@needs_a_lab
def test_fresh_forgets(lab: Lab) -> None:
    assert answers_dns(lab.places["dns"], "best.hobbit")
    assert sum(member["answers"] for member in lab.members().values()) > 0
    lab.fresh()
    assert sum(member["answers"] for member in lab.members().values()) == 0


@needs_a_lab
def test_somebody_else_on_a_host(lab: Lab) -> None:
    burner = lab.run_in("slow", "burner", "timeout", "120", "sh", "-c", "while :; do :; done")
    assert burner.running
    eventually(lambda: lab.members()["slow"]["metrics"].get("cpu_idle", 100.0) < 40, "its agent sees it")
    with pytest.raises(LbdnsError, match="slow is busy"):
        lab.settle(0.5)
    burner.stop()
    lab.settle()


@needs_a_lab
def test_clients_are_near_to_their_own_site_and_get_its_host() -> None:
    hosts = (WebHost("b1", 0.2, workers=4, site="berlin"), WebHost("p1", 0.2, workers=4, site="paris"))
    with Lab(LabFarm(hosts, clients=2, near_s=0.0, far_s=FAR_S)) as lab:
        berlin, paris = lab.clients()
        assert min(connected_s(lab, berlin, "b1") for _ in range(3)) < FAR_S
        assert connected_s(lab, berlin, "p1") >= FAR_S
        assert connected_s(lab, paris, "b1") >= FAR_S
        assert (answer(lab, berlin), answer(lab, paris)) == ("b1.hobbit.", "p1.hobbit.")


def connected_s(lab: Lab, client: PlacedMachine, host: str) -> float:
    """Return the time (s) in which a client opens a connection to a web host."""
    began = time.monotonic()
    address = (lab.machines[host].address, HTTP_PORT)
    inside(client.namespace, lambda: socket.create_connection(address, PATIENCE)).close()
    return time.monotonic() - began


def answer(lab: Lab, client: PlacedMachine) -> str:
    """Return the host that most of ten answers for best.sites.hobbit name; one of a hundred is a probe."""
    query = dns.message.make_query("best.sites.hobbit", "A")
    server = lab.machines["dns"].address
    replies = [inside(client.namespace, lambda: dns.query.udp(query, server, timeout=PATIENCE)) for _ in range(10)]
    return Counter(str(reply.answer[0][0]) for reply in replies).most_common(1)[0][0]


@needs_a_lab
def test_nothing_is_left() -> None:
    with Lab(LabFarm((WebHost("only", 0.3, workers=2),))) as built:
        id, folder = built.id, built.folder
        assert folder.is_dir()
    assert not folder.exists()
    assert not (NAMESPACES / namespace_of(id, "only")).exists()
    assert not list(ETC.glob(f"*{id}*"))
    assert not any((each.point / TOP / id).exists() for each in find_hierarchies().all())
    assert id not in {found.id for found in labs()}
