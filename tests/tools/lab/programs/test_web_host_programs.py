"""Tests of a web host's programs: the pages that Apache serves, the agent's command line, and the agent's metrics."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns_agent.alarm_conditions import DEFAULT_CONDITIONS
from lbdns_agent.cli import build_parser, read_options
from lbdns_agent.gateway.default_route import Gateway
from lbdns_shared.errors import LbdnsError
from lbdns_shared.metric_catalogue import STANDARD_METRICS
from lbdns_tools.lab.farm.lab_farm import HUB, LabFarm, WebHost, machines
from lbdns_tools.lab.machines.control_groups import CgroupHierarchies, CgroupHierarchy, ControlGroup, make_group
from lbdns_tools.lab.machines.placed_machine import PlacedMachine
from lbdns_tools.lab.machines.server_probes import get
from lbdns_tools.lab.programs.dns_servers import DnsServerFiles, write_site
from lbdns_tools.lab.programs.web_content import write_content
from lbdns_tools.lab.programs.web_host_programs import ALARMS, agent_command, apache
from lbdns_tools.load.request_mix import file_set
from tests.end_to_end.process import eventually
from tests.tools.lab.lab_machines import Machines, needs_a_lab, network_of

CORES, WORKERS = 0.5, 8
FARM = LabFarm((WebHost("frodo", CORES, workers=WORKERS), WebHost("bilbo", CORES, workers=2)))
UNIFIED = CgroupHierarchy(Path("/sys/fs/cgroup"), unified=True)
BEFORE = 5  # requests: more than the agent's and those that waited for the workers


@pytest.fixture(scope="module")
def lab() -> Iterator[Machines]:
    with network_of(FARM) as found:
        write_content(found.folder / "content")
        apache(found.programs, found.places["frodo"], FARM.hosts[0], found.folder / "content", found.folder / "frodo")
        yield found


@needs_a_lab
class TestRunning:
    def test_it_serves_what_is_asked_for(self, lab: Machines) -> None:
        for target in file_set("mixed", "http://198.18.1.1").targets:
            found = get(lab.places["frodo"], target.path)
            assert found is not None, target
            assert (found[0], len(found[1])) == (200, target.expect), target

    def test_what_is_not_there(self, lab: Machines) -> None:
        for path in ("/file6k.html", "/cgi-bin/file?size=6000", "/cgi-bin/other"):
            found = get(lab.places["frodo"], path)
            assert found is not None
            assert found[0] == 404

    def test_all_workers_are_there_from_the_start(self, lab: Machines) -> None:
        found = get(lab.places["frodo"], "/server-status?auto")
        assert found is not None
        said = dict(line.split(": ", 1) for line in found[1].decode().splitlines() if ": " in line)
        assert int(said["BusyWorkers"]) + int(said["IdleWorkers"]) == WORKERS
        assert said["ServerMPM"] == "prefork"

    def test_both_families_and_from_other_machines(self, lab: Machines) -> None:
        ask = "import sys, urllib.request; print(len(urllib.request.urlopen(sys.argv[1]).read()))"
        for address in (lab.machines["frodo"].address, f"[{lab.machines['frodo'].address6}]"):
            result = lab.run("client1", "python3", "-c", ask, f"http://{address}/1k.html")
            assert result.stdout.strip() == "1024", result.stderr

    def test_its_processes_are_in_the_hosts_group(self, lab: Machines) -> None:
        place = lab.places["frodo"]
        before = place.group.cpu_seconds()
        assert len(place.group.pids()) >= WORKERS + 1
        get(place, "/cgi-bin/work?ms=200")
        assert 0.2 <= place.group.cpu_seconds() - before < 0.35

    def test_pages_that_it_may_not_read(self, lab: Machines) -> None:
        closed = lab.folder / "closed"
        write_content(closed / "content")
        closed.chmod(0o700)
        with pytest.raises(LbdnsError, match="www-data"):
            apache(lab.programs, lab.places["bilbo"], FARM.hosts[1], closed / "content", lab.folder / "bilbo")

    def test_a_port_that_is_taken(self, lab: Machines) -> None:
        with pytest.raises(LbdnsError, match="frodo exited unexpectedly with exit status 1"):
            apache(lab.programs, lab.places["frodo"], FARM.hosts[0], lab.folder / "content", lab.folder / "again")


@needs_a_lab
def test_the_agent_finds_everything_in_the_hosts_group(lab: Machines) -> None:
    site = write_site(FARM, tuple(lab.machines.values()), lab.folder / "dns")
    place = lab.places["frodo"]
    beside = make_group(f"lbdns-lab/{lab.id}/frodo-agent")
    command = agent_command(site, place, lab.machines[HUB], FARM)
    for _ in range(BEFORE):
        get(place, "/1k.html")

    def once() -> dict[str, float]:
        """Return a complete sample. The agent is run repeatedly, because a busy server may respond too late."""
        found: dict[str, float] = {}

        def is_whole() -> bool:
            whole = place.command(*command, "--once", "--json", group=beside)
            said = json.loads(subprocess.run(whole, capture_output=True, text=True, check=True, timeout=60).stdout)
            found.update(said["metrics"])
            return set(said["metrics"]) >= set(STANDARD_METRICS) - {"disk_busy", "disk_await"}  # there may be no disk

        eventually(is_whole, "the agent finds all there is to be found")
        return found

    before = once()
    assert before["cpu_count"] == pytest.approx(CORES)
    assert before["busy_workers"] + before["idle_workers"] == WORKERS
    assert before["requests_total"] >= BEFORE
    assert 0 < before["gateway_ping"] < 100
    get(place, "/cgi-bin/work?ms=300")
    host, agent = place.group.cpu_seconds(), beside.cpu_seconds()
    after = once()
    host, agent = place.group.cpu_seconds() - host, beside.cpu_seconds() - agent
    used = after["httpd_cpu_seconds"] - before["httpd_cpu_seconds"]
    # The program looks at its own clock, in ticks; what the kernel counts for the group may be a little less
    assert 0.28 <= used < 0.45
    # The agent's own processor time isn't the host's, who only answered its question: it is in a group beside it
    assert agent > 0.05
    assert host < agent / 3


def test_the_agent_understands_it() -> None:
    farm = LabFarm((WebHost("frodo", 0.07),), interval=0.5)
    hub, _, web, *_ = machines(farm)
    place = PlacedMachine(
        web, "lbdns-1-frodo", ControlGroup("lbdns-lab/1/frodo", CgroupHierarchies(UNIFIED, UNIFIED, UNIFIED))
    )
    command = agent_command(DnsServerFiles(Path("/lab/dns"), "198.18.0.53"), place, hub, farm)
    assert command[:3] == (sys.executable, "-m", "lbdns_agent")
    parser = build_parser()
    options = read_options(parser.parse_args(command[3:]))
    assert options.name == "frodo"
    assert [str(collector) for collector in options.collectors] == ["198.18.0.53:7777"]
    assert options.interval == 0.5
    assert options.key_file == Path("/lab/dns/frodo.key")
    assert options.alarms
    silent = agent_command(DnsServerFiles(Path("/lab/dns"), "198.18.0.53"), place, hub, replace(farm, alarms=False))
    assert read_options(parser.parse_args(silent[3:])).alarms == ()
    assert str(options.status) == "http://198.18.1.1/server-status?auto"
    assert options.gateway == Gateway("198.18.0.1")
    assert options.cgroup == "/sys/fs/cgroup/lbdns-lab/1/frodo"
    assert len(options.alarms) == len(ALARMS)


def test_alarms_are_the_agents_own_but_for_the_run_queue() -> None:
    assert set(DEFAULT_CONDITIONS) - set(ALARMS) == {"run_queue/cpu > 64"}
    assert set(ALARMS) < set(DEFAULT_CONDITIONS)
