"""Tests of the whole system with real web servers: best avoids loaded members, and returns to them later."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lbdns_tools.free_ports import free_ports
from tests.end_to_end.apache import WORKERS, Apache, apache, open_folder
from tests.end_to_end.cgroups import Slice, slices
from tests.end_to_end.harness import Site, dig, new_site, serving
from tests.end_to_end.process import Program, eventually, python, running
from tests.needs import needs, program

INTERVAL = 1.0  # seconds between reports
QUOTA = 0.3  # cores of each server: two of them at work leave this machine enough for everything else
HOSTS = {"bilbo": "127.0.77.1", "frodo": "127.0.77.2", "gandalf": "127.0.77.3"}


@dataclass(frozen=True)
class Farm:
    site: Site
    servers: dict[str, Apache]
    groups: dict[str, Slice]
    agents: dict[str, Program]

    def state(self, name: str) -> str:
        found: str = self.site.members_by_name()[name]["state"]
        return found

    def metrics(self, name: str) -> dict[str, float]:
        found: dict[str, float] = self.site.members_by_name()[name]["metrics"]
        return found

    def best(self) -> str:
        """Return the member named in dig's answer. Call this at most twice per interval."""
        return dig(self.site, "best.hobbit", "CNAME", "+short").split(".")[0]

    def at_rest(self, name: str) -> bool:
        member = self.site.members_by_name()[name]
        metrics: dict[str, float] = member["metrics"]
        return (
            member["state"] == "usable"
            and metrics.get("cpu_idle", 0) > 75
            and metrics.get("idle_workers", 0) >= WORKERS - 1
        )


def agent(farm_site: Site, server: Apache, group: Slice) -> tuple[str, ...]:
    return python(
        "lbdns_agent", "--collector", f"127.0.0.1:{farm_site.report_port}", "--name", server.name,
        "--key-file", str(farm_site.agent_key_file(server.name)), "--interval", str(INTERVAL),
        "--server-status", f"{server.url}/server-status?auto", "--cgroup", f"/{group.path}", "--gateway", "127.0.0.1",
    )  # fmt: skip


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    site = new_site(tmp_path, {name: [address] for name, address in HOSTS.items()})
    site.write()
    (port,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        groups = stack.enter_context(slices(list(HOSTS), QUOTA))
        folder = stack.enter_context(open_folder())
        servers = {
            name: stack.enter_context(apache(folder, name, address, port, groups[name].enter))
            for name, address in HOSTS.items()
        }
        stack.enter_context(serving(site))
        agents = {name: stack.enter_context(running(*agent(site, servers[name], groups[name]))) for name in HOSTS}
        found = Farm(site, servers, groups, agents)
        eventually(lambda: all(map(found.at_rest, HOSTS)), "all three report that they have nothing to do")
        yield found


def requests_on(server: Apache) -> tuple[str, ...]:
    """Return the command that starts 15 clients, which continuously request CGI pages for up to three minutes."""
    return program("ab"), "-q", "-r", "-c", "15", "-t", "180", "-s", "60", f"{server.url}/cgi-bin/work"


def burner_in(group: Slice) -> tuple[str, ...]:
    """Return the command for a process, unrelated to the web server, that uses all available CPU time."""
    return group.enter("timeout", "180", "sh", "-c", "while :; do :; done")


def stays_with(farm: Farm, names: set[str], intervals: int) -> None:
    """Wait two intervals; then check once per interval, ``intervals`` times, that ``best`` selects one of ``names``.

    A check does not count if reports are late, because a busy machine delays an agent.
    """
    time.sleep(2 * INTERVAL)
    checks = 0
    for interval in range(60):
        chosen, members = farm.best(), farm.site.members_by_name()
        if all(member["age_s"] < 1.5 * INTERVAL for member in members.values()):
            scores = {name: member["score"] for name, member in members.items()}
            assert chosen in names, f"{interval + 2} intervals after: {chosen} of {scores}"
            checks += 1
        if checks == intervals:
            return
        time.sleep(INTERVAL)
    raise AssertionError("reports are late all the time")


@needs(programs=("apache2", "ab", "dig"), root=True, cpu_groups=True)
def test_best_leaves_the_loaded_servers_within_two_intervals_and_comes_back(farm: Farm) -> None:
    with running(*requests_on(farm.servers["bilbo"])) as ab, running(*burner_in(farm.groups["frodo"])) as burner:
        stays_with(farm, {"gandalf"}, 4)
        # A loaded server may be too slow to tell its counters in time, once in a while
        eventually(lambda: farm.metrics("bilbo").get("busy_workers", 0) >= 10, "ab keeps the workers busy")
        for name in ("bilbo", "frodo"):
            eventually(lambda name=name: farm.metrics(name).get("cpu_idle", 100) < 25, f"{name} is busy")  # type: ignore[misc]
        eventually(lambda: farm.metrics("frodo").get("idle_workers") == WORKERS - 1, "its web server has nothing to do")
        eventually(lambda: farm.metrics("gandalf").get("cpu_idle", 0) > 75, "the load of one is not seen by another")
        assert ab.running
        assert burner.running
    eventually(lambda: farm.at_rest("bilbo") and farm.at_rest("frodo"), "both say that the load is gone")
    with running(*burner_in(farm.groups["gandalf"])):
        stays_with(farm, {"bilbo", "frodo"}, 3)


@needs(programs=("apache2", "dig"), root=True, cpu_groups=True)
def test_who_is_heard_of_no_more_is_handed_out_no_more(farm: Farm) -> None:
    farm.servers["bilbo"].process.stop()
    eventually(lambda: "busy_workers" not in farm.metrics("bilbo"), "bilbo's web server can't be asked")
    eventually(lambda: farm.state("bilbo") == "alarm", "bilbo's agent goes on, and reports that the server has failed")
    farm.agents["bilbo"].stop(signal.SIGKILL)
    farm.agents["frodo"].stop(signal.SIGTERM)
    eventually(lambda: farm.state("frodo") == "silent", "frodo says goodbye")
    eventually(lambda: farm.state("bilbo") == "silent", "bilbo is missed")
    eventually(lambda: {farm.best() for _ in range(5)} == {"gandalf"}, "gandalf alone is handed out")
