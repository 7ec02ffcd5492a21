"""Snapshots over a bus: a real nats-server, collectors that publish, and a server that follows them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lbdns_collector.snapshots.snapshot_messages import CHANGES
from lbdns_shared.bus_subject import report_subject
from lbdns_tools.nats_servers import SERVER, WIDE
from tests.bus.bus_fixtures import connected, until
from tests.end_to_end.harness import Site, best, new_site, serving
from tests.end_to_end.nats_bus import Bus, new_bus, serving_bus
from tests.end_to_end.process import Program, eventually, python, running
from tests.end_to_end.test_bus import is_connected, publishing, received
from tests.needs import needs

if TYPE_CHECKING:
    from nats.aio.msg import Msg

pytestmark = needs(programs=("nats-server",))

MEMBERS = {"gandalf": ["127.0.0.18"], "frodo": ["127.0.0.17"]}


def site_in(folder: Path, section: str, other: Site | None = None, collector: str = "") -> Site:
    """Write the files of a program in a new folder. ``other`` is a site with the same key."""
    folder.mkdir()
    site = new_site(folder, MEMBERS, **({"master": other.master} if other else {}))
    site.write(**({"collector": collector} if collector else {}))
    with site.config.open("a") as file:
        file.write(section)
    return site


def follower_in(folder: Path, bus: Bus, other: Site) -> Site:
    """Return the site of a server that follows the collectors on the bus, with the key of ``other``."""
    return site_in(folder, bus.section(SERVER), other, 'connect = "bus"\nkey_file = "report.key"')


@contextlib.contextmanager
def collecting(site: Site) -> Iterator[Program]:
    """Run a collector, and yield it once it is connected."""
    with running(*python("lbdns_collector", "-c", str(site.config))) as collector:

        def is_up() -> bool:
            with contextlib.suppress(OSError):
                return is_connected(site)
            return False

        collector.until(is_up, "the collector is connected to the bus")
        yield collector


@contextlib.contextmanager
def following(site: Site) -> Iterator[Program]:
    """Run a server, and yield it once it follows a collector."""
    with serving(site) as server:
        server.until(lambda: is_following(site), "the server follows a collector")
        yield server


def is_following(site: Site) -> bool:
    return site.metric("lbdns_collector_connected") == 1


def messages(site: Site, result: str) -> float:
    return site.metric("lbdns_bus_snapshot_messages_total", result=result)


def test_a_server_follows_the_reports_and_the_overrides(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    source = site_in(tmp_path / "source", bus.section())
    site = follower_in(tmp_path / "follower", bus, source)
    with (
        serving_bus(bus),
        serving(source),
        following(site) as server,
        publishing(source, "gandalf", bus) as gandalf,
        publishing(source, "frodo", bus) as frodo,
    ):
        gandalf.send()
        frodo.send(cpu_idle=2.0, run_queue=30.0)
        server.until(lambda: best(site) == "gandalf", "answers name the idle member")
        frodo.send()
        gandalf.send(cpu_idle=2.0, run_queue=30.0)
        server.until(lambda: best(site) == "frodo", "answers name the other member")
        with running(*python("lbdns", "drain", "frodo", "-c", str(source.config))) as command:
            assert command.wait() == 0, command.errors
        server.until(lambda: site.members_by_name()["frodo"]["state"] == "drained", "a drain arrives")
        assert site.members_by_name()["frodo"]["overrides"][0]["origin"] == "bus"
        with running(*python("lbdns", "undrain", "frodo", "-c", str(source.config))) as command:
            assert command.wait() == 0, command.errors
        server.until(lambda: site.members_by_name()["frodo"]["state"] == "usable", "its end arrives")
        gandalf.send("bye")
        server.until(lambda: site.members_by_name()["gandalf"]["state"] == "silent", "a bye arrives")
        with running(*python("lbdns", "check", "-c", str(site.config))) as command:
            assert command.wait() == 0, command.errors
            assert "reports: from the collectors on the bus" in command.output


def test_two_collectors_of_which_one_is_killed(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    one = site_in(tmp_path / "one", bus.section())
    two = site_in(tmp_path / "two", bus.section(), one)
    site = follower_in(tmp_path / "follower", bus, one)
    with (
        serving_bus(bus),
        collecting(one) as killed,
        collecting(two),
        following(site) as server,
        publishing(one, "gandalf", bus) as agent,
    ):
        agent.send()
        server.until(lambda: site.members_by_name()["gandalf"]["state"] == "usable", "a report arrives")
        killed.stop(signal.SIGKILL)
        agent.send(cpu_idle=12.0)
        server.until(
            lambda: site.members_by_name()["gandalf"]["metrics"]["cpu_idle"] == 12.0, "the other collector's arrives"
        )
        assert is_following(site)


def test_collectors_share_the_pools(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    one = site_in(tmp_path / "one", f'{bus.section()}pools = ["web"]\n')
    two = site_in(tmp_path / "two", f'{bus.section()}pools = ["-"]\n', one)
    site = follower_in(tmp_path / "follower", bus, one)
    with (
        serving_bus(bus),
        collecting(one) as first,
        collecting(two),
        following(site) as server,
        publishing(one, "gandalf", bus) as gandalf,
        publishing(one, "frodo", bus, WIDE, report_subject("", "frodo")) as frodo,
    ):
        gandalf.send()
        frodo.send()
        server.until(
            lambda: all(site.members_by_name()[host]["state"] == "usable" for host in MEMBERS), "the server knows both"
        )
        assert (received(one, "accepted"), received(two, "accepted")) == (1, 1)
        one.config.write_text(one.config.read_text().replace('pools = ["web"]', 'pools = ["web", "-"]'))
        os.kill(first.pid, signal.SIGHUP)

        def both_receive() -> bool:
            frodo.send()
            return received(one, "accepted") + received(one, "duplicate") >= 2

        first.until(both_receive, "the first collector receives the other pool's reports, too")
        gandalf.send(cpu_idle=33.0)
        server.until(
            lambda: site.members_by_name()["gandalf"]["metrics"]["cpu_idle"] == 33.0, "and still those of its own"
        )


def test_a_killed_nats_server_that_comes_back(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    source = site_in(tmp_path / "source", bus.section())
    site = follower_in(tmp_path / "follower", bus, source)
    with contextlib.ExitStack() as first:
        nats = first.enter_context(serving_bus(bus))
        with collecting(source), following(site) as server:
            nats.stop(signal.SIGKILL)
            server.until(lambda: not is_following(site), "the server notices")
            assert not is_connected(site)
            with serving_bus(bus), publishing(source, "gandalf", bus) as agent:
                server.until(lambda: is_following(site), "the server follows again")
                agent.send()
                server.until(lambda: site.members_by_name()["gandalf"]["state"] == "usable", "reports go on")


def test_a_new_collector_starts_warm_and_refuses_replays(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    old = site_in(tmp_path / "old", bus.section())
    new = site_in(tmp_path / "new", bus.section(), old)
    with serving_bus(bus), collecting(old) as first, publishing(old, "gandalf", bus) as agent:
        recorded = agent.datagram()
        agent.send_bytes(recorded)
        first.until(lambda: old.metric("lbdns_bus_reports_total", result="accepted") == 1, "the report arrives")
        with collecting(new) as second:
            second.until(lambda: "1 reading adopted" in second.errors, "the reading is adopted")
            metrics = old.members_by_name()["gandalf"]["metrics"]
            second.until(lambda: new.members_by_name()["gandalf"]["metrics"] == metrics, "the status shows it")
            agent.send_bytes(recorded)  # counts as a duplicate: it could have come over UDP before
            agent.send_bytes(recorded)
            second.until(lambda: new.metric("lbdns_bus_reports_total", result="replay") == 1, "a replay is refused")
            assert new.metric("lbdns_bus_reports_total", result="accepted") == 0


def test_forged_and_replayed_messages_are_refused(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, *MEMBERS)
    source = site_in(tmp_path / "source", bus.section())
    site = follower_in(tmp_path / "follower", bus, source)

    async def attack() -> None:
        recorded: list[bytes] = []

        async def record(message: Msg) -> None:
            recorded.append(message.data)

        async with connected(bus) as attacker:
            attacker.subscribe(CHANGES, record)
            await until(lambda: recorded, "a message is recorded")
            [message, *_] = recorded
            for forged in (b"garbage", message[:-1] + bytes([message[-1] ^ 1]), message):
                await attacker.publish(CHANGES, forged)
            assert attacker.client
            await attacker.client.flush()

    with serving_bus(bus), collecting(source), following(site) as server:
        asyncio.run(attack())
        refusals = ("malformed", "bad_tag", "replay")
        server.until(lambda: all(messages(site, result) >= 1 for result in refusals), "the refusals are counted")
        assert messages(site, "lost") == 0
        eventually(lambda: is_following(site), "the server follows on")
