"""lbdns as the DNS server of a lab: files that it takes, names that it answers, agents that it believes."""

from __future__ import annotations

import re
from pathlib import Path

from lbdns.config import load_config
from lbdns.model.farm import load_farm
from lbdns_tools.lab.farm.lab_farm import DNS, HUB, NAMES, LabFarm, WebHost, machines
from lbdns_tools.lab.front.lbdns_server import serve, status, write_site
from lbdns_tools.lab.web.web_host_programs import agent_command
from tests.end_to_end.process import eventually
from tests.needs import needs
from tests.tools.lab.lab_machines import NEEDED, network_of

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
            "frodo-agent", place.command(*agent_command(site, place, lab.machines[HUB], 0.2)), seconds=10
        )

        def states() -> dict[str, str]:
            return {member["name"]: member["state"] for member in status(dns)["pools"][0]["members"]}

        eventually(lambda: states() == {"bilbo": "unknown", "frodo": "usable"}, "frodo's signed reports are taken")
        assert agent.running
        asked = lab.run("client1", "dig", f"@{lab.machines[DNS].address}", "explain.best.hobbit", "TXT", "+short")
        assert "frodo" in asked.stdout
        server.stop()
        lab.programs.check()
