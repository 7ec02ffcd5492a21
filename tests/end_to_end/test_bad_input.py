"""Tests of mistakes by users and peers: each causes a clear message or a counted drop, and no data is lost."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import pytest

from lbdns_shared.keys import new_master_key
from tests.config.config_files import pool_table
from tests.end_to_end.harness import FakeAgent, Site, agents, ask, best, new_site, serving
from tests.end_to_end.process import Program, eventually, python, running
from tests.needs import needs

FARM = {"gandalf": ["192.0.2.3"], "frodo": ["192.0.2.2"]}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    found = new_site(tmp_path, FARM)
    found.write()
    return found


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def write(path: Path, text: str) -> None:
    path.write_text(text)


def serve(site: Site) -> tuple[str, ...]:
    return python("lbdns", "serve", "-c", str(site.config))


def collect(site: Site) -> tuple[str, ...]:
    return python("lbdns_collector", "-c", str(site.config))


#: What is wrong, how it is made so, and what is said; {} is the site's folder
AT_START: list[tuple[str, Callable[[Site], None], str]] = [
    (
        "an unknown key",
        lambda site: edit(site.config, "[web]", "[web]\nlitsen = 1"),
        "[web] litsen: unknown key. Perhaps you meant 'listen'?",
    ),
    (
        "no configuration",
        lambda site: site.config.unlink(),
        "{}/lbdns.toml: there is no such file; specify a configuration with -c FILE",
    ),
    ("a broken configuration", lambda site: write(site.config, "[server\n"), "{}/lbdns.toml:1: TOML: "),
    (
        "a member without an address",
        lambda site: edit(site.config, '"frodo"', '"sauron"'),
        "{}/lbdns.toml:12: [pool web] members: 'sauron' has no address in zone hobbit; add an A or AAAA record",
    ),
    (
        "two pools with one name",
        lambda site: edit(site.config, "[collector]", pool_table("frodo") + "[collector]"),
        "two pools have the name 'web'; rename one of them",
    ),
    (
        "a zone without SOA",
        lambda site: write(site.folder / "hobbit.zone", "@ 1 NS ns\nns 1 A 127.0.0.1\n"),
        "{}/hobbit.zone: zone hobbit: the file must have an SOA record at hobbit.",
    ),
    (
        "a zone that is wrong",
        lambda site: edit(site.folder / "hobbit.zone", "127.0.0.1", "127.0.0"),
        "{}/hobbit.zone:4: zone hobbit: ",
    ),
    ("no key file", lambda site: site.key_file.unlink(), "{}/report.key: cannot read the key file: No such file"),
    ("a key that is none", lambda site: write(site.key_file, "master x\n"), "{}/report.key:1: key: "),
    (
        "a key file with an agent's key",
        lambda site: write(site.key_file, site.agent_key_file("frodo").read_text()),
        "{}/report.key: the key file contains no master key",
    ),
    (
        "a user that doesn't exist",
        lambda site: edit(site.config, "state_dir", 'user = "nobody-of-this-name"\nstate_dir'),
        "there is no user 'nobody-of-this-name'",
    ),
]


@pytest.mark.parametrize(("break_it", "said"), [a[1:] for a in AT_START], ids=[a[0] for a in AT_START])
def test_a_bad_start_is_said_and_ends_with_2(site: Site, break_it: Callable[[Site], None], said: str) -> None:
    break_it(site)
    with running(*serve(site)) as program:
        assert program.wait() == 2
        assert said.replace("{}", str(site.folder)) in program.errors
        assert "Traceback" not in program.errors


@needs(programs=("setpriv",))
def test_a_key_that_may_not_be_read(site: Site) -> None:
    site.key_file.chmod(0)
    # Root may read everything, unless this is taken from it (capabilities(7))
    plain = () if os.geteuid() else ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    with running(*plain, *serve(site)) as program:
        assert program.wait() == 2
        assert program.errors == f"{site.key_file}: cannot read the key file: Permission denied\n"


@pytest.mark.parametrize("what", ["DNS over UDP", "DNS over TCP", "reports", "pages"])
def test_a_taken_port_is_said_and_ends_with_1(site: Site, what: str) -> None:
    kind = socket.SOCK_DGRAM if what in ("DNS over UDP", "reports") else socket.SOCK_STREAM
    port = {"reports": site.report_port, "pages": site.http_port}.get(what, site.dns_port)
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind((site.address, port))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        with running(*serve(site)) as program:
            assert program.wait() == 1
            assert f"{site.address}:{port}" in program.errors
            assert re.search(r"\bin use\b", program.errors)
            assert "Traceback" not in program.errors


def test_an_address_that_is_not_ours(site: Site) -> None:
    with running(*serve(site), "--listen", "192.0.2.1:53") as program:
        assert program.wait() == 1
        assert "192.0.2.1:53" in program.errors
        assert "Traceback" not in program.errors


def test_a_key_file_others_can_read_is_a_warning(site: Site) -> None:
    site.key_file.chmod(0o644)
    with serving(site) as server:
        server.until(lambda: f"chmod 600 {site.key_file}" in server.errors, "the warning")
        assert "Traceback" not in server.errors


@pytest.mark.parametrize("program", [serve, collect])
@pytest.mark.parametrize("arguments", [["--nope"], ["--log-level", "loud"], ["more"]])
def test_bad_arguments_end_with_2(site: Site, program: Callable[[Site], tuple[str, ...]], arguments: list[str]) -> None:
    with running(*program(site), *arguments) as process:
        assert process.wait() == 2
        assert "Traceback" not in process.errors


@pytest.fixture
def server(site: Site) -> Iterator[Program]:
    with serving(site) as program:
        yield program
        assert program.running
        assert "Traceback" not in program.errors


class TestReload:
    """If a reload reads an invalid file, the old configuration stays in force, and the error is logged."""

    def test_a_mistake_changes_nothing_and_mending_it_does(self, site: Site, server: Program) -> None:
        with agents(site) as sending:
            sending["frodo"].send()
            eventually(lambda: best(site) == "frodo", "frodo is the only one heard of")
            edit(site.folder / "hobbit.zone", "frodo A 192.0.2.2", "frodo A 192.0.2")
            server.process.send_signal(signal.SIGHUP)
            server.until(lambda: "the old configuration stays" in server.errors, "the refusal is logged")
            assert f"{site.folder}/hobbit.zone:6: zone hobbit: " in server.errors
            assert str(ask(site, "frodo.hobbit").answer[0][0]) == "192.0.2.2"
            edit(site.folder / "hobbit.zone", "frodo A 192.0.2\n", "frodo A 192.0.2.22\n")
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: str(ask(site, "frodo.hobbit").answer[0][0]) == "192.0.2.22", "the new zone is served")
            assert site.members_by_name()["frodo"]["score"] == 100, "its report has been kept"

    def test_no_query_is_lost_on_the_way(self, site: Site, server: Program) -> None:
        done = 0
        for _ in range(5):
            server.process.send_signal(signal.SIGHUP)
            for _ in range(40):
                assert ask(site, "best.hobbit").rcode() == dns.rcode.NOERROR
                done += 1
        server.until(lambda: "reload: done" in server.errors, "a reload is done")
        assert done == 200


GARBAGE = [
    b"",
    b"\0",
    b"\xff" * 11,
    b"GET / HTTP/1.0\r\n\r\n",
    os.urandom(512),
    bytes(12),
    b"LBR1",
    b"LBR1" + bytes(1400),
]


def test_garbage_on_both_ports_does_no_harm(site: Site, server: Program) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, agents(site) as sending:
        sending["gandalf"].send()
        for datagram in GARBAGE:
            sender.sendto(datagram, (site.address, site.dns_port))
            sender.sendto(datagram, (site.address, site.report_port))
        for stream in (b"\0", b"\xff\xff", b"\0\5abcde", os.urandom(300)):
            with socket.create_connection((site.address, site.dns_port), timeout=60) as connection:
                connection.sendall(stream)
        eventually(lambda: best(site) == "gandalf", "reports arrive among it")
        assert ask(site, "gandalf.hobbit", tcp=True).rcode() == dns.rcode.NOERROR
        eventually(lambda: dropped(site, "malformed") >= 6, "it is counted")
        assert dropped(site, "too_long") == 1


def dropped(site: Site, reason: str) -> float:
    return site.metric("lbdns_reports_total", result=reason)


#: The reason, and a report that is dropped for it
REJECTED: dict[str, Callable[[FakeAgent], bytes]] = {
    "too_long": lambda agent: agent.datagram() + bytes(1200),
    "malformed": lambda agent: agent.datagram()[:20],
    "unknown_host": lambda agent: agent.datagram(host="sauron"),
    "bad_tag": lambda agent: agent.datagram(master=new_master_key()),
    "clock": lambda agent: agent.datagram(late=31),
}


class TestReports:
    @pytest.mark.parametrize("reason", REJECTED)
    def test_each_reason_is_counted_and_the_report_unheard(self, site: Site, server: Program, reason: str) -> None:
        with agents(site) as sending:
            frodo = sending["frodo"]
            frodo.send_bytes(REJECTED[reason](frodo))
            eventually(lambda: dropped(site, reason) == 1, f"it is dropped for {reason}")
            assert site.members_by_name()["frodo"]["state"] == "unknown"
            server.until(lambda: f"dropped: {reason}" in server.errors, "the reason is logged")
            frodo.send()
            eventually(lambda: site.members_by_name()["frodo"]["state"] == "usable", "a good one is heard")

    def test_a_replay(self, site: Site, server: Program) -> None:
        with agents(site) as sending:
            old, new = (sending["frodo"].datagram(run_queue=run_queue) for run_queue in (0.0, 30.0))
            for datagram in (new, old, new):
                sending["frodo"].send_bytes(datagram)
            eventually(lambda: dropped(site, "replay") == 2, "both are dropped")
            assert site.members_by_name()["frodo"]["metrics"]["run_queue"] == 30.0

    def test_a_flood_of_one_host_leaves_the_others_heard(self, site: Site, server: Program) -> None:
        with agents(site) as sending:

            def flooded() -> bool:
                for _ in range(300):
                    sending["frodo"].send()
                return dropped(site, "rate") > 0

            eventually(flooded, "most of the flood is dropped")
            sending["gandalf"].send()
            eventually(lambda: site.members_by_name()["gandalf"]["state"] == "usable", "gandalf is heard")
            assert site.members_by_name()["frodo"]["state"] == "usable"

    def test_without_keys_the_source_address_counts(self, tmp_path: Path) -> None:
        site = new_site(tmp_path, {"gandalf": ["127.0.0.1"], "frodo": ["127.0.0.2"]}, master=None)
        site.write()
        with serving(site), agents(site) as sending:
            sending["gandalf"].send()
            sending["frodo"].send()  # from 127.0.0.1 too, which is gandalf's address
            eventually(lambda: dropped(site, "bad_tag") == 1, "frodo isn't believed")
            states = {name: member["state"] for name, member in site.members_by_name().items()}
            assert states == {"gandalf": "usable", "frodo": "unknown"}

    def test_the_collector_never_answers(self, site: Site, server: Program) -> None:
        with agents(site) as sending:
            for reason, make in REJECTED.items():
                sending["frodo"].send_bytes(make(sending["frodo"]))
                eventually(partial(dropped, site, reason), reason)
            sending["gandalf"].send()
            eventually(lambda: site.members_by_name()["gandalf"]["state"] == "usable", "gandalf is heard")
            for agent in sending.values():
                agent.socket.setblocking(False)
                with pytest.raises(BlockingIOError):
                    agent.socket.recv(2000)


class TestAgents:
    def test_goodbye_and_alarm_take_a_member_out_at_once(self, site: Site, server: Program) -> None:
        with agents(site, interval=60) as sending:
            for agent in sending.values():
                agent.send()
            eventually(lambda: {best(site) for _ in range(4)} == {"gandalf", "frodo"}, "ties take turns")
            sending["frodo"].send("alarm", alarm="run_queue 130 > 100")
            eventually(lambda: site.members_by_name()["frodo"]["state"] == "alarm", "frodo asks to be left alone")
            eventually(lambda: {best(site) for _ in range(4)} == {"gandalf"}, "gandalf alone is handed out")
            sending["frodo"].send()
            eventually(lambda: site.members_by_name()["frodo"]["state"] == "usable", "data ends the alarm")
            sending["gandalf"].send("bye")
            eventually(lambda: site.members_by_name()["gandalf"]["state"] == "silent", "gandalf has left")
            eventually(lambda: {best(site) for _ in range(4)} == {"frodo"}, "frodo alone is handed out")

    def test_silence_takes_a_member_out(self, site: Site, server: Program) -> None:
        with agents(site, interval=0.2) as sending:

            def heard() -> bool:
                sending["gandalf"].send()
                return bool(site.members_by_name()["gandalf"]["state"] == "usable")

            eventually(heard, "gandalf is heard", step=0.1)
            # With an interval of a minute, this would take more than a minute
            eventually(lambda: site.members_by_name()["gandalf"]["state"] == "silent", "it falls silent", 30.0)
            assert site.status()["pools"][0]["fail_open"] is True
            # No member is usable, so all of them are selected
            eventually(lambda: {best(site) for _ in range(4)} == {"gandalf", "frodo"}, "both are handed out")
