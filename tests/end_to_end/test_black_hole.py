"""A web server dies while its real agent keeps running: best must avoid the member, although it looks idle."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lbdns_tools.free_ports import free_ports
from tests.end_to_end.harness import Site, agents, best, new_site, serving
from tests.end_to_end.process import PATIENCE, Program, eventually, python, running

INTERVAL = 0.5  # seconds between reports
#: Seconds: long enough for the test to see a member on its way
RAMP_UP = 10.0
HOSTS = {"bilbo": "127.0.78.1", "frodo": "127.0.78.2", "gandalf": "127.0.78.3"}
NAMES = ("best.hobbit", "weighted.hobbit", "round.robin.hobbit")


@dataclass
class Farm:
    site: Site
    port: int
    server: Program
    webs: dict[str, Program] = field(default_factory=dict)

    def web(self, name: str) -> Program:
        """Start a web server like the demo's."""
        listen = f"{HOSTS[name]}:{self.port}"
        self.webs[name] = Program(python("lbdns.demo.webserver", "--name", name, "--listen", listen))
        return self.webs[name]

    def agent(self, name: str, alarms: bool) -> tuple[str, ...]:
        return python(
            "lbdns_agent", "--collector", f"127.0.0.1:{self.site.report_port}", "--name", name,
            "--key-file", str(self.site.agent_key_file(name)), "--interval", str(INTERVAL), "--cgroup", "off",
            "--gateway", "off", "--server-status", f"http://{HOSTS[name]}:{self.port}/server-status?auto",
            *(() if alarms else ("--alarm", "off")),
        )  # fmt: skip

    def close(self) -> None:
        for web in self.webs.values():
            web.close()

    def guard(self, name: str) -> str:
        found: str = self.site.members_by_name()[name]["guard"]
        return found

    def counted(self, name: str) -> bool:
        return "requests_total" in self.site.members_by_name()[name]["metrics"]

    def handed_out(self, each: int) -> Counter[str]:
        """Query every name ``each`` times, and return how often each member is selected."""
        return Counter(best(self.site, name) for name in NAMES for _ in range(each))


@pytest.fixture(params=[1, 2], ids=["alone", "workers"])
def farm(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Farm]:
    """A farm whose agents raise no alarms, so that only their metrics show that a web server is dead."""
    (port,) = free_ports(1)
    with running_farm(tmp_path, request.param, port, alarms=False, ramp_up=RAMP_UP) as found:
        yield found


@contextlib.contextmanager
def running_farm(
    tmp_path: Path, workers: int, port: int, alarms: bool, more: str = "", ramp_up: float = 2.0
) -> Iterator[Farm]:
    site = new_site(tmp_path, {name: [address] for name, address in HOSTS.items()})
    site.write(server=f"workers = {workers}", pool=f"ramp_up = {ramp_up}\n{more}")
    with contextlib.ExitStack() as stack:
        found = Farm(site, port, stack.enter_context(serving(site)))
        stack.callback(found.close)
        for name in HOSTS:
            found.web(name)
            stack.enter_context(running(*found.agent(name, alarms)))
        eventually(lambda: all(map(found.counted, HOSTS)), "all web servers are asked for their counters")
        yield found


def test_a_dead_web_server_is_handed_out_no_more_until_it_is_back(farm: Farm) -> None:
    dead = best(farm.site)
    farm.webs[dead].close()
    eventually(lambda: farm.guard(dead).startswith("quarantined: nothing listens"), "it is caught")
    eventually(lambda: farm.handed_out(5)[dead] == 0, "all workers know")
    assert farm.handed_out(20)[dead] == 0
    eventually(lambda: farm.site.members_by_name()[dead]["state"] == "usable", "its agent reports")
    labels = {"pool": "web", "member": dead}
    assert farm.site.metric("lbdns_member_quarantined", **labels) == 1
    assert farm.site.metric("lbdns_member_usable", **labels) == 0
    shown = subprocess.run(
        python("lbdns", "status", "-c", str(farm.site.config)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout
    assert f"{dead}: quarantined: nothing listens on its server-status port, for " in shown
    logged = f"pool web: {dead} is quarantined: nothing listens"
    farm.server.until(lambda: logged in farm.server.errors, "it is logged")
    farm.web(dead)
    eventually(lambda: farm.guard(dead).startswith("ramp "), "it comes back, little by little")
    assert 0 < farm.site.metric("lbdns_member_ramp", **labels) <= 1
    eventually(lambda: not farm.guard(dead), "and wholly")
    eventually(lambda: farm.site.metric("lbdns_member_usable", **labels) == 1, "it is usable")
    eventually(lambda: farm.handed_out(20)[dead] > 0, "it is handed out")
    ended = f"pool web: {dead} is no longer quarantined"
    farm.server.until(lambda: ended in farm.server.errors, "the end is logged")
    assert farm.server.errors.count(f"{dead} is quarantined:") == 1
    assert farm.server.errors.count(ended) == 1


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("checked", [False, True])
def test_an_agent_notices_at_once_that_its_web_server_is_dead(tmp_path: Path, workers: int, checked: bool) -> None:
    (port,) = free_ports(1)
    more = f'check = {{ target = "tcp:{port}", timeout = 10 }}' if checked else ""
    with running_farm(tmp_path, workers, port, alarms=True, more=more) as farm:
        dead = best(farm.site)
        farm.webs[dead].close()
        state, why = ("silent", f"tcp:{port}: connection refused; ") if checked else ("alarm", "")
        reason = f"{why}alarm: web server failed: nothing listens on port {port}"

        def noticed() -> bool:
            member = farm.site.members_by_name()[dead]
            return (member["state"], member["reason"]) == (state, reason)

        eventually(noticed, f"the agent has noticed, and {dead} is {state}: {reason}")
        eventually(lambda: farm.handed_out(5)[dead] == 0, "all workers know")
        assert farm.handed_out(20)[dead] == 0
        farm.web(dead)
        eventually(lambda: farm.site.members_by_name()[dead]["state"] == "usable", "the agent reports that it is back")
        eventually(lambda: not farm.guard(dead), "and wholly")
        eventually(lambda: farm.handed_out(20)[dead] > 0, "it is handed out")
        lines = farm.server.errors.splitlines()
        changes = [line for line in lines if f"{dead} is {state} (was" in line and "silent for" not in line]
        assert len(changes) == 1, changes


def test_a_web_server_that_hangs_is_handed_out_no_more_until_it_goes_on(farm: Farm) -> None:
    stuck = best(farm.site)
    farm.webs[stuck].process.send_signal(signal.SIGSTOP)
    eventually(lambda: farm.guard(stuck).startswith("quarantined: its server-status page cannot"), "it is caught")
    eventually(lambda: farm.handed_out(5)[stuck] == 0, "all workers know")
    assert farm.handed_out(20)[stuck] == 0
    farm.webs[stuck].process.send_signal(signal.SIGCONT)
    eventually(lambda: not farm.guard(stuck), "it is back")
    eventually(lambda: farm.handed_out(20)[stuck] > 0, "it is handed out")


def test_errors_that_rise_without_requests_are_seen_by_all_workers(tmp_path: Path) -> None:
    site = new_site(tmp_path, {name: [address] for name, address in HOSTS.items()})
    site.write(server="workers = 2", pool="ramp_up = 0")
    errors = 0.0
    with serving(site) as server, agents(site, INTERVAL) as found:

        def report(failing: bool) -> Counter[str]:
            """Report no new requests and, if ``failing``, an error on frodo; count the answers for each member."""
            nonlocal errors
            errors += failing
            for name, agent in found.items():
                agent.send(requests_total=1000.0, listen_queue=0.0, errors_total=errors if name == "frodo" else 0.0)
            return Counter(best(site, "round.robin.hobbit") for _ in range(12))

        def guard() -> str:
            text: str = site.members_by_name()["frodo"]["guard"]
            return text

        assert report(False)
        eventually(
            lambda: report(True) and guard().startswith("quarantined: it serves no requests, and its errors are"),
            "the main process sees it", step=INTERVAL,
        )  # fmt: skip
        eventually(lambda: report(True)["frodo"] == 0, "and so do the workers", step=INTERVAL)
        eventually(lambda: report(False) and not guard(), "a probe finds it well", step=INTERVAL)
        eventually(lambda: report(False)["frodo"] > 0, "and it is handed out again", step=INTERVAL)
        assert server.errors.count("frodo is quarantined") == 1
