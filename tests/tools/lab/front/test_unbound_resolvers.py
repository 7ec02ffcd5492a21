"""unbound between clients and lbdns: it asks lbdns, and keeps answers as long as it is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_tools.lab.farm.lab_farm import DNS, LabFarm, WebHost, machines
from lbdns_tools.lab.front import unbound_resolvers
from lbdns_tools.lab.front.lbdns_server import serve, status, write_site
from tests.end_to_end.process import eventually
from tests.needs import needs
from tests.tools.lab.lab_machines import NEEDED, Machines, network_of

HOSTS = (WebHost("bilbo", 0.5), WebHost("frodo", 0.5))
KEPT = LabFarm(HOSTS, resolvers=1, resolver_min_ttl=60)
AS_SAID = LabFarm(HOSTS, resolvers=1)
ASKED = 6
NAME = "round.robin.hobbit"


def test_configuration() -> None:
    by_name = {machine.name: machine for machine in machines(KEPT)}
    text = unbound_resolvers.unbound_conf(by_name["resolver1"], by_name[DNS], 60, Path("/lab/resolver1"))
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
        unbound_resolvers.start(
            found.programs, found.places["resolver1"], found.machines[DNS], farm, found.folder / "resolver1"
        )
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
