"""Tests of ``[[pool]] check``: real servers, a collector with followers, and members that die or seem to."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns_shared.report import WEB_SERVER_FAILED
from lbdns_tools.free_ports import free_ports
from tests.end_to_end.harness import Site, agents, best, new_site, serving
from tests.end_to_end.process import eventually, python, running
from tests.needs import needs

FARM = {"gandalf": ["127.0.0.18"], "frodo": ["127.0.0.17"], "bilbo": ["127.0.0.16"]}
INTERVAL = 40.0  # s: overdue after a minute, so that only alarms lead to checks during a test


@contextlib.contextmanager
def web_servers(port: int) -> Iterator[dict[str, socket.socket]]:
    """Listen on ``port`` of every member."""
    found = {name: socket.create_server((addresses[0], port), backlog=128) for name, addresses in FARM.items()}
    try:
        yield found
    finally:
        for listening in found.values():
            listening.close()


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def states(site: Site) -> dict[str, str]:
    return {name: member["state"] for name, member in site.members_by_name().items()}


@pytest.mark.parametrize("workers", [1, 2])
def test_whose_web_server_fails_is_no_longer_selected(tmp_path: Path, port: int, workers: int) -> None:
    site = new_site(tmp_path, FARM)
    site.write(pool=f'check = {{ target = "tcp:{port}", timeout = 10 }}')
    with (
        web_servers(port) as web,
        serving(site, "--workers", str(workers)) as server,
        agents(site, INTERVAL) as sending,
    ):
        for name, agent in sending.items():
            agent.send(cpu_idle=100.0 if name == "frodo" else 50.0)
        eventually(lambda: best(site) == "frodo", "the agents have reported")
        # The alarm alone takes it out for as long as others can carry the load, the check in any case
        sending["frodo"].send("alarm", WEB_SERVER_FAILED)
        eventually(lambda: site.metric("lbdns_checks_total", pool="web", result="passed") >= 1, "it is checked")
        assert states(site) == {"gandalf": "usable", "frodo": "alarm", "bilbo": "usable"}
        web["frodo"].close()
        eventually(lambda: states(site)["frodo"] == "silent", "the check fails")
        frodo = site.members_by_name()["frodo"]
        assert frodo["reason"] == f"tcp:{port}: connection refused; alarm: {WEB_SERVER_FAILED}"
        assert site.metric("lbdns_member_check_failed", pool="web", member="frodo") == 1
        eventually(lambda: {best(site) for _ in range(20)} <= {"gandalf", "bilbo"}, "all workers select another")
        sending["frodo"].send(cpu_idle=100.0)
        eventually(lambda: states(site)["frodo"] == "usable", "the agent reports that all is well")
        assert server.stop() == 0
        assert f"frodo is silent (was alarm): tcp:{port}: connection refused" in server.errors
        assert "Traceback" not in server.errors


def test_an_overdue_report_leads_to_a_check(tmp_path: Path, port: int) -> None:
    site = new_site(tmp_path, FARM)
    site.write(pool=f'check = {{ target = "tcp:{port}", timeout = 10 }}')
    text = site.config.read_text().replace("[collector]\n", "[collector]\nstale_after = 1000\n")
    site.config.write_text(text)
    with web_servers(port) as web, serving(site), agents(site, 0.5) as sending:
        web["frodo"].close()
        for agent in sending.values():
            agent.send()
        eventually(lambda: states(site)["frodo"] == "silent", "the dead host is out")
        assert {states(site)[name] for name in ("gandalf", "bilbo")} == {"usable"}  # overdue too, but they answer


@needs(root=True)
def test_icmp_after_privileges_have_been_dropped(tmp_path: Path) -> None:
    site = new_site(tmp_path, FARM)
    site.write(pool='check = { target = "icmp", timeout = 10 }', server='user = "nobody"')
    with serving(site), agents(site, INTERVAL) as sending:
        sending["frodo"].send()
        sending["frodo"].send("alarm", WEB_SERVER_FAILED)
        eventually(lambda: site.metric("lbdns_checks_total", pool="web", result="passed") >= 1, "frodo replies")
        assert states(site)["frodo"] == "alarm"


@pytest.mark.parametrize("workers", [1, 2])
def test_members_without_agents(tmp_path: Path, port: int, workers: int) -> None:
    site = new_site(tmp_path, FARM)
    check = f'check = {{ target = "tcp:{port}", interval = 0.2, timeout = 10 }}'
    more = 'agentless = ["gandalf", "frodo", "bilbo"]\nweights = { frodo = 2 }'
    site.write(pool=f"{check}\n{more}")
    with web_servers(port) as web, serving(site, "--workers", str(workers)) as server:
        eventually(lambda: set(states(site).values()) == {"usable"}, "all have been checked")
        assert {member["score"] for member in site.members_by_name().values()} == {None}
        counts = Counter(best(site, "weighted.hobbit") for _ in range(200 * workers))
        assert counts["frodo"] == pytest.approx(100 * workers, abs=10 * workers)
        web["frodo"].close()
        eventually(lambda: states(site)["frodo"] == "silent", "the check fails")
        eventually(lambda: {best(site) for _ in range(20)} == {"gandalf", "bilbo"}, "it is known to all workers")
        back = socket.create_server((FARM["frodo"][0], port))
        eventually(lambda: states(site)["frodo"] == "usable", "the check passes again")
        back.close()
        # A reload gives it an agent, which has not reported yet
        site.write(pool=check + '\nagentless = ["gandalf", "bilbo"]')
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: states(site) == {"gandalf": "usable", "frodo": "unknown", "bilbo": "usable"}, "a reload")
        assert server.stop() == 0
        assert "Traceback" not in server.errors


def test_followers_learn_the_results(tmp_path: Path, port: int) -> None:
    for folder in ("central", "follower"):
        (tmp_path / folder).mkdir()
    central = new_site(tmp_path / "central", FARM)
    check = f'check = {{ target = "tcp:{port}", timeout = 10 }}'
    central.write(pool=check)
    site = replace(new_site(tmp_path / "follower", FARM), report_port=central.report_port, master=central.master)
    site.write(collector=f'connect = "http://{central.at(central.http_port)}"', pool=check)
    with web_servers(port) as web, running(*python("lbdns_collector", "-c", str(central.config))) as collector:
        with serving(site), agents(central, INTERVAL) as sending:
            collector.until(lambda: site.metric("lbdns_collector_connected") == 1, "the server follows the collector")
            for agent in sending.values():
                agent.send()
            eventually(lambda: set(states(site).values()) == {"usable"}, "the reports are followed")
            web["frodo"].close()
            sending["frodo"].send("alarm", WEB_SERVER_FAILED)
            eventually(lambda: states(site)["frodo"] == "silent", "the failed check is followed")
            assert site.members_by_name()["frodo"]["check_failed"] == f"tcp:{port}: connection refused"
            eventually(lambda: {best(site) for _ in range(20)} <= {"gandalf", "bilbo"}, "another is selected")
            sending["frodo"].send()
            eventually(lambda: states(site)["frodo"] == "usable", "the return is followed")
        assert collector.stop() == 0
        assert "Traceback" not in collector.errors
