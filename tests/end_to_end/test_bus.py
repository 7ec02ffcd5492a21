"""Reports over a bus: a real nats-server, real servers and collectors, and the agent's own client."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_shared.report import Report, encode
from lbdns_tools.free_ports import free_ports
from lbdns_tools.nats_servers import COLLECTOR, WIDE
from tests.end_to_end.harness import IDLE, Site, best, new_site, serving
from tests.end_to_end.nats_bus import Bus, PublishingAgent, new_bus, serving_bus
from tests.end_to_end.process import Program, eventually, python, running
from tests.needs import needs

pytestmark = needs(programs=("nats-server",))

MEMBERS = {"gandalf": ["127.0.0.18"], "frodo": ["127.0.0.17"]}
#: Options of a real agent that measures nothing that a busy machine may disturb
QUIET = ("--gateway", "off", "--server-status", "off", "--alarm", "off")


def written(folder: Path, section: str = "", pool: str = "") -> Site:
    site = new_site(folder, MEMBERS)
    site.write(pool=pool)
    with site.config.open("a") as file:
        file.write(section)
    return site


def is_connected(site: Site) -> bool:
    return site.metric("lbdns_bus_connected") == 1


def received(site: Site, result: str) -> float:
    return site.metric("lbdns_bus_reports_total", result=result)


@contextlib.contextmanager
def subscribed(site: Site) -> Iterator[Program]:
    """Run ``lbdns serve``, and yield it once it has subscribed."""
    with serving(site) as server:
        server.until(lambda: is_connected(site), "the collector is connected to the bus")
        yield server


@contextlib.contextmanager
def publishing(site: Site, host: str, bus: Bus, user: str = "", subject: str = "") -> Iterator[PublishingAgent]:
    agent = PublishingAgent(site, host, bus, user, subject)
    try:
        yield agent
    finally:
        agent.close()


@pytest.mark.parametrize("tls", [False, True])
def test_reports_arrive_and_best_follows(tmp_path: Path, tls: bool) -> None:
    bus = new_bus(tmp_path, *MEMBERS, tls=tls)
    site = written(tmp_path, bus.section())
    with (
        serving_bus(bus),
        subscribed(site),
        publishing(site, "gandalf", bus) as one,
        publishing(site, "frodo", bus) as two,
    ):

        def follows(idle: PublishingAgent, busy: PublishingAgent) -> bool:
            idle.send()
            busy.send(cpu_idle=2.0, run_queue=30.0)
            return best(site) == idle.host

        eventually(lambda: follows(one, two), "answers name the idle member")
        eventually(lambda: follows(two, one), "answers name the other member")
        assert received(site, "accepted") >= 4
        assert site.status()["reports"]["bus"]["server"].endswith(f"localhost:{bus.port}")
        one.send("bye")
        eventually(lambda: site.members_by_name()["gandalf"]["state"] == "silent", "the bye arrives")


def test_a_real_agent_reports_over_udp_and_the_bus(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    site = written(tmp_path, bus.section())
    options = ("--name", "gandalf", "--pool", "web", "--key-file", str(site.agent_key_file("gandalf")), *QUIET)
    both = ("--bus", bus.url("gandalf"), "--collector", f"127.0.0.1:{site.report_port}", "--interval", "0.2")
    with serving_bus(bus), subscribed(site) as server:
        with running(*python("lbdns_agent", *options, *both)) as agent:
            agent.until(lambda: site.metric("lbdns_reports_total", result="duplicate") >= 5, "reports arrive twice")
            agent.until(lambda: site.members_by_name()["gandalf"]["state"] == "usable", "the member is usable")
        status = site.status()["reports"]
        assert status["counts"]["replay"] == 0
        assert status["rejected"] == []
        assert "dropped" not in server.errors
        only_bus = ("--bus", bus.url("gandalf"), "--interval", "0.2")
        with running(*python("lbdns_agent", *options, *only_bus)) as agent:
            before = received(site, "accepted")
            agent.until(lambda: received(site, "accepted") >= before + 3, "reports arrive over the bus alone")
            assert agent.stop() == 0
        eventually(lambda: site.members_by_name()["gandalf"]["gone"], "a stopped agent says bye over the bus")


def test_what_nats_refuses(tmp_path: Path) -> None:
    """An agent may publish its own subject alone."""
    bus = new_bus(tmp_path, *MEMBERS)
    site = written(tmp_path, bus.section())
    key = str(site.agent_key_file("frodo"))
    options = ("--name", "frodo", "--pool", "web", "--key-file", key, "--interval", "0.1", *QUIET)
    with serving_bus(bus), subscribed(site):
        with running(*python("lbdns_agent", *options, "--bus", bus.url("gandalf"))) as agent:
            text = "the server refuses reports with subject lbdns.report.web.frodo"
            agent.until(lambda: text in agent.errors, "the agent logs the refusal")
            assert agent.errors.count(text) == 1
        with running(*python("lbdns_agent", *options, "--bus", bus.url("frodo", "wrong"))) as agent:
            agent.until(lambda: "the server refuses the credentials" in agent.errors, "the agent logs the reason")
        assert received(site, "accepted") == 0
        assert site.members_by_name()["frodo"]["state"] == "unknown"


def test_what_the_collector_refuses(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    site = written(tmp_path, bus.section())
    other = "lbdns.report.web.gandalf"
    with serving_bus(bus), subscribed(site), publishing(site, "frodo", bus, WIDE, other) as agent:
        agent.send()
        eventually(lambda: received(site, "wrong_subject") == 1, "the subject names another host")
        [sender] = site.status()["reports"]["rejected"]
        assert (sender["source"], sender["host"], sender["reason"]) == (other, "frodo", "wrong_subject")
    with serving_bus(bus), subscribed(site), publishing(site, "frodo", bus) as agent:
        unsigned = encode(Report("frodo", 1, 1, time.time(), 1.0, IDLE))
        agent.send_bytes(unsigned)
        eventually(lambda: received(site, "bad_tag") == 1, "an unsigned report is refused")
        datagram = agent.datagram()
        agent.send_bytes(datagram)
        agent.send_bytes(datagram)
        eventually(lambda: received(site, "replay") == 1, "a repeated report is refused")
        agent.send_bytes(agent.datagram(late=60.0))
        eventually(lambda: received(site, "clock") == 1, "an old report is refused")
        assert received(site, "accepted") == 1


def test_a_killed_server_that_comes_back(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    site = written(tmp_path, bus.section())
    options = ("--name", "gandalf", "--pool", "web", "--key-file", str(site.agent_key_file("gandalf")), *QUIET)
    with contextlib.ExitStack() as first:
        nats = first.enter_context(serving_bus(bus))
        with (
            subscribed(site) as server,
            running(*python("lbdns_agent", *options, "--bus", bus.url("gandalf"), "--interval", "0.2")) as agent,
        ):
            agent.until(lambda: received(site, "accepted") >= 1, "reports arrive")
            nats.stop(signal.SIGKILL)
            server.until(lambda: site.status()["reports"]["bus"]["problem"], "the status shows the problem")
            assert not is_connected(site)
            shown = status_text(site)
            assert "bus: no reports arrive: nats://localhost" in shown
            with serving_bus(bus):
                before = received(site, "accepted")
                agent.until(lambda: received(site, "accepted") >= before + 3, "reports go on")
                assert is_connected(site)
                assert "the server closed the connection" in agent.errors
                assert "no reports arrive" not in status_text(site)


def status_text(site: Site) -> str:
    with running(*python("lbdns", "status", "--url", f"http://127.0.0.1:{site.http_port}")) as command:
        assert command.wait() == 0, command.errors
        return command.output


def test_a_second_server_of_the_bus(tmp_path: Path) -> None:
    """The first URL leads nowhere, both for the agent and for the collector."""
    bus = new_bus(tmp_path, *MEMBERS)
    nowhere = f"nats://127.0.0.1:{free_ports(1)[0]}"
    site = written(tmp_path, f'[bus]\nurl = ["{nowhere}", "{bus.url(COLLECTOR)}"]\n')
    options = ("--name", "gandalf", "--pool", "web", "--key-file", str(site.agent_key_file("gandalf")), *QUIET)
    servers = ("--bus", nowhere, "--bus", bus.url("gandalf"))
    with serving_bus(bus), subscribed(site), running(*python("lbdns_agent", *options, *servers)) as agent:
        agent.until(lambda: received(site, "accepted") >= 1, "reports arrive")


def test_a_reload_adds_changes_and_removes_the_bus(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    site = written(tmp_path)
    without = site.config.read_text()
    with serving_bus(bus), serving(site) as server, publishing(site, "gandalf", bus) as agent:
        assert site.status()["reports"]["bus"] is None

        def reload(section: str) -> None:
            site.config.write_text(without + section)
            with running(*python("lbdns", "reload", "-c", str(site.config))) as command:
                assert command.wait() == 0, command.errors

        reload(bus.section())
        server.until(lambda: is_connected(site), "the collector is connected")
        agent.send()
        server.until(lambda: received(site, "accepted") == 1, "reports arrive")
        reload(bus.section(password="wrong"))
        server.until(lambda: "refuses the credentials" in site.status()["reports"]["bus"]["problem"], "it reconnects")
        reload(bus.section())
        server.until(lambda: is_connected(site), "the collector is connected again")
        agent.send()
        server.until(lambda: received(site, "accepted") == 2, "the counters go on")
        reload("")
        assert site.status()["reports"]["bus"] is None
        site.config.write_text(without + '[bus]\nurl = ["http://127.0.0.1"]\n')
        with running(*python("lbdns", "reload", "-c", str(site.config))) as command:
            assert command.wait() != 0
            assert "[bus] url" in command.errors


def test_hosts_join_over_the_bus_with_addresses_in_the_networks(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, "web-1", "web-2", "web-3")
    join = 'join = { names = "web-*", networks = ["127.0.1.0/24"], max = 10, leave_after = "1h" }'
    site = written(tmp_path, bus.section(), pool=join)
    assert site.master

    def report(host: str, *addresses: str) -> bytes:
        made = Report(host, 1, 1, time.time(), 1.0, IDLE, "data", "", "web", addresses)
        return encode(made, site.master.agent_key(host)) if site.master else b""

    with serving_bus(bus), subscribed(site):
        for host, addresses in (("web-2", ("127.0.2.2",)), ("web-3", ())):
            with publishing(site, host, bus) as agent:
                agent.send_bytes(report(host, *addresses))
        eventually(lambda: received(site, "join_address") == 2, "an address outside, and none, are refused")
        with publishing(site, "web-1", bus) as agent:
            agent.send_bytes(report("web-1", "127.0.1.1"))
        eventually(lambda: "web-1" in site.members_by_name(), "the host joins")
        assert site.members_by_name()["web-1"]["addresses"] == ["127.0.1.1"]


def test_the_collector_alone(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    site = written(tmp_path, bus.section())
    with serving_bus(bus), running(*python("lbdns_collector", "-c", str(site.config))) as collector:
        with publishing(site, "gandalf", bus) as agent:

            def has_reported() -> bool:
                with contextlib.suppress(OSError):
                    if is_connected(site):
                        agent.send()
                        return received(site, "accepted") > 0
                return False

            collector.until(has_reported, "a report arrives")
        assert collector.stop() == 0


@pytest.mark.parametrize(
    ("server_tls", "client_tls", "authority", "problem"),
    [
        (True, True, False, "certificate"),  # the system does not trust the authority
        (False, True, True, "TLS"),
    ],
)
def test_tls_that_fails(tmp_path: Path, server_tls: bool, client_tls: bool, authority: bool, problem: str) -> None:
    secured = new_bus(tmp_path, *MEMBERS, tls=True)
    bus = secured if server_tls else Bus(tmp_path, secured.port)
    bus.write(*MEMBERS)
    url = secured.url if client_tls else bus.url
    trusted = f'tls_ca = "{secured.certificate}"\n' if authority else ""
    site = written(tmp_path, f'[bus]\nurl = ["{url(COLLECTOR)}"]\n{trusted}')
    options = ("--name", "gandalf", "--pool", "web", "--key-file", str(site.agent_key_file("gandalf")), *QUIET)
    more = ("--bus-tls-ca", str(secured.certificate)) if authority else ()
    with serving_bus(bus) as nats, serving(site) as server:
        server.until(lambda: problem in site.status()["reports"]["bus"]["problem"], "the collector shows the reason")
        with running(*python("lbdns_agent", *options, "--bus", url("gandalf"), *more)) as agent:
            agent.until(lambda: f"bus tls://localhost:{bus.port}: " in agent.errors, "the agent logs the reason")
            assert problem in agent.errors
        assert nats.running
