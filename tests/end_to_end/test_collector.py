"""Tests of ``lbdns-collector`` without a DNS server, and of DNS servers that follow it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.harness import FakeAgent, Site, agents, best, new_site, serving
from tests.end_to_end.process import Program, eventually, python, running

FARM = {"gandalf": ["192.0.2.3"], "frodo": ["192.0.2.2"], "bilbo": ["192.0.2.1"]}


@pytest.fixture
def central(tmp_path: Path) -> Site:
    """The collector's files."""
    folder = tmp_path / "central"
    folder.mkdir()
    site = new_site(folder, FARM)
    site.write()
    return site


@contextlib.contextmanager
def collecting(site: Site) -> Iterator[Program]:
    with running(*python("lbdns_collector", "-c", str(site.config))) as program:
        program.until(lambda: _is_up(site), "the collector is up")
        yield program


def _is_up(site: Site) -> bool:
    try:
        return bool(site.page("/healthz"))
    except OSError:
        return False


@pytest.fixture
def followers(central: Site, tmp_path: Path) -> list[Site]:
    """Write the files of two DNS servers that follow the collector, and return their sites."""
    found = []
    for number in range(2):
        folder = tmp_path / f"follower{number}"
        folder.mkdir()
        ports = new_site(folder, FARM)
        site = replace(ports, report_port=central.report_port, master=central.master)
        site.write(collector=f'connect = "http://{central.at(central.http_port)}"')
        found.append(site)
    return found


def test_two_servers_answer_as_the_collector_knows(central: Site, followers: list[Site]) -> None:
    with (
        collecting(central) as collector, serving(followers[0]), serving(followers[1]),
        agents(central, interval=60) as sending,
    ):  # fmt: skip
        for name, agent in sending.items():
            agent.send(cpu_idle=100.0 if name == "frodo" else 50.0)
        for site in followers:
            eventually(lambda site=site: states(site) == {"usable"}, "it knows all three")  # type: ignore[misc]
            eventually(lambda site=site: best(site) == "frodo", "frodo is the best")  # type: ignore[misc]
            assert {name: m["score"] for name, m in site.members_by_name().items()} == {
                name: m["score"] for name, m in central.members_by_name().items()
            }
        sending["frodo"].send("bye")
        sending["bilbo"].send(cpu_idle=80.0)
        for site in followers:
            eventually(lambda site=site: best(site) == "bilbo", "the change is followed", step=1.0)  # type: ignore[misc]
        assert collector.stop() == 0
        assert "Traceback" not in collector.errors


def states(site: Site) -> set[str]:
    return {member["state"] for member in site.members_by_name().values()}


def test_a_collector_that_is_gone_ages_and_comes_back(central: Site, followers: list[Site]) -> None:
    site = followers[0]
    with serving(site) as server:
        assert states(site) == {"unknown"}, "it answers before the collector is there"
        assert best(site) in FARM
        with collecting(central) as collector, agents(central, interval=0.5) as sending:
            keep = Keep(sending)
            eventually(lambda: keep.send() and states(site) == {"usable"}, "it follows")
            collector.stop(signal.SIGKILL)
            eventually(lambda: states(site) == {"silent"}, "the last snapshot ages")
            assert site.status()["pools"][0]["fail_open"] is True
            eventually(lambda: {best(site) for _ in range(6)} == set(FARM), "everybody is handed out")
        with collecting(central), agents(central, interval=0.5) as sending:
            keep = Keep(sending, boot=2)
            eventually(lambda: keep.send() and states(site) == {"usable"}, "it follows the new one")
        assert server.stop() == 0
        assert "Traceback" not in server.errors


class Keep:
    """Agents that continue to report while the test waits."""

    def __init__(self, sending: dict[str, FakeAgent], boot: int = 1) -> None:
        self._agents = list(sending.values())
        for agent in self._agents:
            agent.boot = boot

    def send(self) -> bool:
        for agent in self._agents:
            agent.send()
        return True


def test_stat_file_and_pages(central: Site) -> None:
    central.write(
        collector=central.config.read_text().partition("[collector]\n")[2].partition("[web]")[0]
        + 'stat_file = "stat"\n'
    )
    with collecting(central), agents(central) as sending:
        sending["gandalf"].send(run_queue=3.0)
        stat = central.folder / "stat"
        eventually(lambda: stat.exists() and "gandalf:web:usable:" in stat.read_text(), "the stat file has it")
        assert central.metric("lbdns_reports_total", result="accepted") == 1
        assert central.members_by_name()["gandalf"]["metrics"]["run_queue"] == 3.0
        assert "lbdns" in central.page("/")


def test_its_ports_and_files_are_checked_as_the_server_s_are(central: Site) -> None:
    with collecting(central), running(*python("lbdns_collector", "-c", str(central.config))) as second:
        assert second.wait() == 1
        assert f":{central.report_port}" in second.errors
        assert "Traceback" not in second.errors
    central.key_file.write_text("nonsense\n")
    with running(*python("lbdns_collector", "-c", str(central.config))) as program:
        assert program.wait() == 2
        assert f"{central.key_file}:1: key: " in program.errors
