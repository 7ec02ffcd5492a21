"""Hosts that join a pool of a real server: answers, zone transfers, restarts, workers, followers, and refusals."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import dns.message
import dns.query
import dns.rdatatype
import dns.zone
import pytest

from lbdns_shared.report import Kind, Report, encode
from lbdns_tools.free_ports import free_ports
from tests.end_to_end.harness import IDLE, LONG, Site, new_site, serving
from tests.end_to_end.process import PATIENCE, eventually, python, running

JOIN = 'join = {{ names = "web-*", networks = ["127.0.0.0/8"], max = {most}, leave_after = "{leave_after}" }}'
TRANSFER = 'transfer = ["127.0.0.1"]\n'


class JoiningAgent:
    """Sends signed reports of one host from the host's own address."""

    def __init__(self, site: Site, name: str, address: str, pool: str = "web") -> None:
        self.site, self.name, self.pool = site, name, pool
        self.boot, self.seq = random.getrandbits(60), 0
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((address, 0))

    def report(self, kind: Kind = "data") -> None:
        self.seq += 1
        report = Report(self.name, self.boot, self.seq, time.time(), LONG, IDLE, kind, "", self.pool)
        assert self.site.master
        self.sock.sendto(encode(report, self.site.master.agent_key(self.name)), ("127.0.0.1", self.site.report_port))


@contextlib.contextmanager
def agents(site: Site, *names: str) -> Iterator[list[JoiningAgent]]:
    found = [JoiningAgent(site, name, f"127.0.1.{int(name.rpartition('-')[2])}") for name in names]
    try:
        yield found
    finally:
        for agent in found:
            agent.sock.close()


def written(folder: Path, leave_after: str = "1h", most: int = 100, server: str = "") -> Site:
    site = new_site(folder, {"gandalf": ["127.0.0.18"]})
    site.write(pool=JOIN.format(most=most, leave_after=leave_after), server=server)
    site.config.write_text(
        site.config.read_text().replace('file = "hobbit.zone"\n', f'file = "hobbit.zone"\n{TRANSFER}')
    )
    return site


def addresses(site: Site, name: str) -> list[str]:
    response = dns.query.udp(dns.message.make_query(f"{name}.hobbit", "A"), "127.0.0.1", PATIENCE, site.dns_port)
    return [record.to_text() for rrset in response.answer if rrset.rdtype == dns.rdatatype.A for record in rrset]


def named(site: Site, count: int = 20) -> set[str]:
    """Return the addresses that several answers for round.robin name."""
    return {address for _ in range(count) for address in addresses(site, "round.robin")}


def transferred(site: Site) -> dns.zone.Zone:
    return dns.zone.from_xfr(
        dns.query.xfr("127.0.0.1", "hobbit", port=site.dns_port, relativize=True, lifetime=PATIENCE)
    )


def serial(site: Site) -> int:
    response = dns.query.udp(dns.message.make_query("hobbit", "SOA"), "127.0.0.1", PATIENCE, site.dns_port)
    found: int = next(iter(response.answer[0])).serial
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_a_host_joins_and_leaves(tmp_path: Path, workers: int) -> None:
    site = written(tmp_path, "3s", server=f"workers = {workers}")
    with serving(site), agents(site, "web-1", "web-2") as (one, two):
        before = serial(site)
        assert addresses(site, "web-1") == []
        one.report()
        two.report()
        eventually(lambda: addresses(site, "web-1") == ["127.0.1.1"], "the zone has the host's address")
        eventually(lambda: {"127.0.1.1", "127.0.1.2"} <= named(site), "answers name the new members")
        eventually(lambda: serial(site) > before, "all workers serve the new serial")
        eventually(
            lambda: transferred(site).get_rdataset("web-2", dns.rdatatype.A), "all workers transfer the new zone"
        )
        members = site.members_by_name()
        assert [name for name, member in members.items() if member["joined"]] == ["web-1", "web-2"]
        one.report("bye")
        eventually(lambda: site.members_by_name()["web-1"]["state"] == "silent", "it is silent at once")

        def has_left() -> bool:
            two.report()
            return addresses(site, "web-1") == []

        eventually(has_left, "it leaves")
        assert addresses(site, "web-2") == ["127.0.1.2"]
        assert "web-1" not in site.members_by_name()


def test_joined_members_survive_restarts_and_a_take_over(tmp_path: Path) -> None:
    site = written(tmp_path)
    with agents(site, "web-1") as (agent,):
        with serving(site) as server:
            agent.report()
            eventually((tmp_path / "state" / "joined.json").exists, "the file is written")
            assert server.stop() == 0
        with serving(site) as old:
            assert addresses(site, "web-1") == ["127.0.1.1"], "before any report"
            with running(*python("lbdns", "serve", "-c", str(site.config), "--take-over")) as new:
                assert old.wait() == 0
                new.until(lambda: "ready" in new.errors, "it has taken over")
                assert addresses(site, "web-1") == ["127.0.1.1"]
                agent.report()
                eventually(lambda: site.members_by_name()["web-1"]["state"] == "usable", "its reports are accepted")


def test_a_reload_applies_the_rules_again(tmp_path: Path) -> None:
    site = written(tmp_path)
    with serving(site) as server, agents(site, "web-1") as (agent,):
        agent.report()
        eventually(lambda: addresses(site, "web-1") == ["127.0.1.1"], "it has joined")
        zone = tmp_path / "hobbit.zone"
        zone.write_text(zone.read_text() + "web-1 A 192.0.2.99\n")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: addresses(site, "web-1") == ["192.0.2.99"], "the zone file wins")
        assert "web-1" not in site.members_by_name()
        agent.report()
        eventually(lambda: site.metric("lbdns_reports_total", result="join_name") == 1, "it may not join any more")


def test_many_hosts_join_at_once(tmp_path: Path) -> None:
    """All of 300 hosts join, and every query meanwhile is answered."""
    site = written(tmp_path, most=300)
    names = [f"web-{number}" for number in range(1, 251)]
    with serving(site), agents(site, *names) as found:
        for agent in found:
            agent.report()

        def have_joined() -> bool:
            assert named(site, 5), "every query is answered"
            return len(site.members_by_name()) == 1 + len(names)

        eventually(have_joined, "all have joined")
        assert site.metric("lbdns_reports_total", result="accepted") == len(names)


def test_refusals_are_counted(tmp_path: Path) -> None:
    site = written(tmp_path, most=1)
    with serving(site), agents(site, "web-1", "web-2", "web-3", "web-4") as (one, two, three, four):
        one.report()
        eventually(lambda: addresses(site, "web-1") == ["127.0.1.1"], "it has joined")
        two.report()
        three.pool = "wob"
        three.report()
        four.sock.close()
        four.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        assert site.master
        report = Report("web-4", 1, 1, time.time(), 1.0, IDLE, "data", "", "web", ("192.0.2.1",))
        four.sock.sendto(encode(report, site.master.agent_key("web-4")), ("127.0.0.1", site.report_port))
        stranger = Report("web-5", 1, 1, time.time(), 1.0, IDLE, "data", "", "web")
        four.sock.sendto(encode(stranger, site.master.agent_key("web-4")), ("127.0.0.1", site.report_port))
        reasons = ("join_full", "join_pool", "join_address", "bad_tag")
        counts = partial(site.metric, "lbdns_reports_total")
        eventually(lambda: [counts(result=reason) for reason in reasons] == [1, 1, 1, 1], "each has its reason")
        assert set(site.members_by_name()) == {"gandalf", "web-1"}


def followers(site: Site, folder: Path) -> Site:
    """Write the files of a server that follows ``site``."""
    folder.mkdir()
    dns_port, http_port = free_ports(2)
    other = replace(site, folder=folder, dns_port=dns_port, http_port=http_port)
    other.write(
        pool=JOIN.format(most=100, leave_after="1h"), collector=f'connect = "http://127.0.0.1:{site.http_port}"'
    )
    return other


def test_a_follower_takes_over_joined_members(tmp_path: Path) -> None:
    site = written(tmp_path, "3s")
    other = followers(site, tmp_path / "other")
    with serving(site), agents(site, "web-1", "web-2") as (one, two):
        with serving(other) as follower:
            one.report()
            two.report()
            eventually(lambda: addresses(other, "web-1") == ["127.0.1.1"], "the follower serves the new member")
            eventually(lambda: other.members_by_name()["web-1"]["state"] == "usable", "with its readings")
            eventually((tmp_path / "other" / "state" / "joined.json").exists, "it keeps the members")
            assert follower.stop() == 0
        with serving(other):
            assert addresses(other, "web-2") == ["127.0.1.2"], "after a restart"
            one.report("bye")

            def has_left() -> bool:
                two.report()
                return addresses(other, "web-1") == []

            eventually(has_left, "it leaves the follower's pool too")


def test_the_standalone_collector(tmp_path: Path) -> None:
    site = written(tmp_path)
    other = followers(site, tmp_path / "other")
    with running(*python("lbdns_collector", "-c", str(site.config))) as collector, serving(other):
        collector.until(lambda: "ready" in collector.errors, "the collector is ready")
        with agents(site, "web-1") as (agent,):
            agent.report()
            eventually(lambda: addresses(other, "web-1") == ["127.0.1.1"], "the follower serves the new member")


def test_the_agent_joins(tmp_path: Path) -> None:
    """A pool without members answers without data until the first agent reports."""
    site = written(tmp_path)
    site.config.write_text(site.config.read_text().replace('members = ["gandalf"]\n', ""))
    options: Sequence[str] = ("--gateway", "off", "--server-status", "off", "--name", "web-1", "--pool", "web")
    with serving(site):
        query = dns.message.make_query("best.hobbit", "A")
        response = dns.query.udp(query, "127.0.0.1", PATIENCE, site.dns_port)
        assert (response.answer, response.rcode(), response.authority[0].ttl) == ([], 0, 0)
        assert site.status()["pools"][0]["fail_open"] is False
        collector = f"127.0.0.1:{site.report_port}"
        command = python(
            "lbdns_agent", "--collector", collector, "--key-file", str(site.agent_key_file("web-1")), *options
        )
        with running(*command, "--address", "127.0.0.21"):
            eventually(lambda: addresses(site, "best") == ["127.0.0.21"], "the answer names the new member")


def test_a_drain_reaches_the_followers(tmp_path: Path) -> None:
    site = written(tmp_path)
    other = followers(site, tmp_path / "other")
    drain = ("drain", "web-1", "-c", str(site.config))

    def override_of(name: str) -> str:
        found = other.members_by_name().get(name, {}).get("overrides", [])
        return found[0]["origin"] if found else ""

    with serving(site), agents(site, "web-1", "web-2") as (one, two):
        one.report()
        two.report()
        with serving(other) as follower:
            eventually(lambda: addresses(other, "web-1") == ["127.0.1.1"], "the follower serves the new member")
            with running(*python("lbdns", *drain)) as command:
                assert command.wait() == 0
            eventually(lambda: other.members_by_name()["web-1"]["state"] == "drained", "the drain arrives")
            assert override_of("web-1") == f"http://127.0.0.1:{site.http_port}"
            with running(*python("lbdns", "undrain", "web-1", "-c", str(other.config))) as command:
                assert command.wait() == 1
                assert "end this override on the server at" in command.errors
            assert follower.stop() == 0
        with serving(other):
            assert other.members_by_name()["web-1"]["state"] == "drained", "after a restart"
            with running(*python("lbdns", "undrain", "web-1", "-c", str(site.config))) as command:
                assert command.wait() == 0
            eventually(lambda: not override_of("web-1"), "its end arrives")


def test_a_host_that_was_drained_ahead_gets_no_client_when_it_joins(tmp_path: Path) -> None:
    site = written(tmp_path)
    gandalf = JoiningAgent(site, "gandalf", "127.0.0.18")

    def state(name: str) -> str:
        gandalf.report()
        return str(site.members_by_name().get(name, {}).get("state"))

    with serving(site), agents(site, "web-1") as (agent,), contextlib.closing(gandalf.sock):
        eventually(lambda: state("gandalf") == "usable", "gandalf reports")
        with running(*python("lbdns", "drain", "web-1", "--ahead", "-c", str(site.config))) as command:
            assert command.wait() == 0
            assert "(no pool has this member now)" in command.output
            assert "web-1.hobbit has not joined yet; it will be drained from the moment it joins" in command.errors
        agent.report()
        eventually(lambda: state("web-1") == "drained", "web-1 joins")
        assert named(site) == {"127.0.0.18"}
        with running(*python("lbdns", "undrain", "web-1", "-c", str(site.config))) as command:
            assert command.wait() == 0
        agent.report()
        eventually(lambda: "127.0.1.1" in named(site), "web-1 gets clients")
