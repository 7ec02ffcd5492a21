"""Checks that lbdns accepts the lab's files and serves its names, and that unbound caches answers as configured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from lbdns.config import load_config
from lbdns.model.farm_reader import load_farm
from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import DNS, HUB, NAMES, LabFarm, WebHost, machines
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.programs import dns_servers
from lbdns_tools.lab.programs.dns_servers import serve, start_resolver, status, unbound_conf, write_site
from lbdns_tools.lab.programs.web_host_programs import agent_command
from tests.end_to_end.process import eventually
from tests.needs import needs
from tests.tools.lab.lab_machines import NEEDED, Machines, network_of

FARM = LabFarm((WebHost("bilbo", 0.5), WebHost("frodo", 0.5)))


def test_files(tmp_path: Path) -> None:
    every = machines(FARM)
    site = write_site(FARM, every, tmp_path / "dns")
    config = load_config(site.config)
    (pool,) = config.pools
    assert (pool.members, dict(pool.names)) == (("bilbo", "frodo"), NAMES)
    assert [str(listen) for listen in config.server.listen] == ["198.18.0.53:53", "[fd00:198:18::35]:53"]
    assert config.server.state_dir == site.state
    assert not config.server.user
    assert not config.history.on
    assert "198.18.0.0/15" in map(str, config.rate_limit.exempt)
    for key in ("report.key", "bilbo.key", "frodo.key"):
        assert (site.folder / key).stat().st_mode & 0o777 == 0o600
    write_site(FARM, every, tmp_path / "dns")  # once more, over what is there


def test_hosts_may_join_only_if_the_farm_says_so(tmp_path: Path) -> None:
    for joining in ("", "web-*"):
        farm = replace(FARM, joining=joining)
        (pool,) = load_config(write_site(farm, machines(farm), tmp_path / "dns").config).pools
        assert (pool.join.names if pool.join else ()) == ((joining,) if joining else ())
    assert pool.join
    assert set(map(str, pool.join.networks)) == {"198.18.0.0/15", "fd00:198:18::/64"}


def test_sites_have_pools_and_a_table_of_networks(tmp_path: Path) -> None:
    hosts = (WebHost("b1", 0.5, site="berlin"), WebHost("p1", 0.5, site="paris"), WebHost("b2", 0.5, site="berlin"))
    farm = LabFarm(hosts, clients=2)
    every = machines(farm)
    config = load_farm(write_site(farm, every, tmp_path / "dns").config).config
    assert [(dict(pool.names), pool.members) for pool in config.pools[1:]] == [
        ({"best.sites": "best"}, ("b1", "p1", "b2")),
        ({"berlin.site": "best"}, ("b1", "b2")),
        ({"paris.site": "best"}, ("p1",)),
    ]
    assert config.pools[0].members == farm.host_names
    clients = [machine for machine in every if machine.kind == "client"]
    assert [client.site for client in clients] == ["berlin", "paris"]
    lines = (tmp_path / "dns" / "networks.txt").read_text().splitlines()
    assert f"{clients[1].addresses4[-1]}/32 paris berlin" in lines
    assert f"{clients[0].address6}/128 berlin paris" in lines


@pytest.mark.parametrize(("dns", "http", "ready"), [(False, True, False), (True, False, False), (True, True, True)])
def test_the_server_is_ready_once_it_answers_dns_and_http(
    monkeypatch: pytest.MonkeyPatch, dns: bool, http: bool, ready: bool
) -> None:
    def asked(_: object) -> dict[str, object]:
        if not http:
            raise LbdnsError("connection refused")
        return {}

    monkeypatch.setattr(dns_servers, "answers_dns", lambda *_: dns)
    monkeypatch.setattr(dns_servers, "status", asked)
    assert dns_servers.is_serving(cast(PlacedMachine, None)) is ready


def test_every_host_has_both_addresses(tmp_path: Path) -> None:
    site = write_site(FARM, machines(FARM), tmp_path)
    (pool,) = load_farm(site.config).pools
    assert {member.name: member.addresses for member in pool.members} == {
        "bilbo": ("198.18.1.1", "fd00:198:18::101"),
        "frodo": ("198.18.1.2", "fd00:198:18::102"),
    }


@needs(programs=(*NEEDED, "dig"), root=True, namespaces=True, cpu_groups=True)
def test_it_answers_and_believes_its_agents() -> None:
    with network_of(FARM) as lab:
        dns, place = lab.places[DNS], lab.places["frodo"]
        site = write_site(FARM, tuple(lab.machines.values()), lab.folder / DNS)
        server = serve(lab.programs, dns, site)
        names = [f"{name}.hobbit" for name in NAMES]
        for address in (lab.machines[DNS].address, lab.machines[DNS].address6):
            asked = lab.run("client1", "dig", f"@{address}", "+noall", "+answer", "+time=5", *names)
            found = re.findall(r"^(\S+)\.\s+0\s+IN\s+CNAME\s+(\w+)\.hobbit\.$", asked.stdout, re.MULTILINE)
            assert [name for name, _ in found] == names, asked.stdout + asked.stderr
            assert {member for _, member in found} <= {"bilbo", "frodo"}
        agent = lab.programs.start(
            "frodo-agent",
            place.command(*agent_command(site, place, lab.machines[HUB], replace(FARM, interval=0.2))),
            seconds=60,
        )

        def states() -> dict[str, str]:
            return {member["name"]: member["state"] for member in status(dns)["pools"][0]["members"]}

        eventually(lambda: states() == {"bilbo": "unknown", "frodo": "usable"}, "frodo's signed reports are taken")
        assert agent.running
        asked = lab.run("client1", "dig", f"@{lab.machines[DNS].address}", "explain.best.hobbit", "TXT", "+short")
        assert "frodo" in asked.stdout
        server.stop()
        lab.programs.check()


HOSTS = (WebHost("bilbo", 0.5), WebHost("frodo", 0.5))
KEPT = LabFarm(HOSTS, resolvers=1, resolver_min_ttl=60)
AS_SAID = LabFarm(HOSTS, resolvers=1)
ASKED = 6
NAME = "round.robin.hobbit"


def test_unbound_conf() -> None:
    by_name = {machine.name: machine for machine in machines(KEPT)}
    text = unbound_conf(by_name["resolver1"], by_name[DNS], 60, Path("/lab/resolver1"))
    words = [line.split() for line in text.splitlines()]
    assert ["interface:", "198.18.3.1@53"] in words
    assert ["stub-addr:", "198.18.0.53"] in words
    assert ["cache-min-ttl:", "60"] in words
    assert ["control-enable:", "no"] in words


@pytest.fixture(params=[KEPT, AS_SAID], ids=["kept", "as the TTL says"])
def lab(request: pytest.FixtureRequest) -> Iterator[Machines]:
    farm: LabFarm = request.param
    with network_of(farm) as found:
        site = write_site(farm, tuple(found.machines.values()), found.folder / DNS)
        serve(found.programs, found.places[DNS], site)
        start_resolver(found.programs, found.places["resolver1"], found.machines[DNS], farm, found.folder / "resolver1")
        yield found


@needs(programs=(*NEEDED, "unbound", "dig"), root=True, namespaces=True, cpu_groups=True)
def test_answers_are_lbdnss(lab: Machines) -> None:
    def handed_out() -> int:
        members = status(lab.places[DNS])["pools"][0]["members"]
        return int(sum(member["answers"] for member in members))

    def ask(name: str) -> str:
        return lab.run("client1", "dig", f"@{lab.machines['resolver1'].address}", name, "+time=5").stdout

    def member() -> str:
        answer = ask(NAME)
        assert "status: NOERROR" in answer, answer
        found = re.search(r"\sCNAME\s+(\w+)\.hobbit\.", answer)
        assert found, answer
        return found[1]

    before, found = handed_out(), {member()}
    if lab.farm.resolver_min_ttl:
        found |= {member() for _ in range(ASKED)}
        assert len(found) == 1
        eventually(lambda: handed_out() - before == 1, "lbdns has been asked once")
    else:
        eventually(lambda: member() not in found, "another server's turn", step=0.2)
    assert "status: REFUSED" in ask("www.example.org")
