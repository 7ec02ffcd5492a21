"""Shared overrides: several ``lbdns serve`` on a real nats-server with JetStream."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.end_to_end.harness import Site, new_site, serving
from tests.end_to_end.nats_bus import Bus, new_bus, serving_bus
from tests.end_to_end.process import Program, eventually, python, running
from tests.needs import needs

pytestmark = needs(programs=("nats-server",))

MEMBERS = {"gandalf": ["127.0.0.18"], "frodo": ["127.0.0.17"]}
HOST = socket.gethostname()


def site_in(folder: Path, bus: Bus, other: Site | None = None) -> Site:
    """Write the files of a server in a new folder. ``other`` is a site with the same key."""
    folder.mkdir()
    site = new_site(folder, MEMBERS, **({"master": other.master} if other else {}))
    site.write()
    with site.config.open("a") as file:
        file.write(f"{bus.section()}share_overrides = true\n")
    return site


@contextlib.contextmanager
def sharing(site: Site) -> Iterator[Program]:
    """Run a server, and yield it once it shares its overrides."""
    with serving(site) as server:
        server.until(lambda: is_sharing(site), "the server shares its overrides")
        yield server


def is_sharing(site: Site) -> bool:
    return bool(site.status()["shared_overrides"]["connected"])


def order(site: Site, *words: str) -> str:
    """Run a command that overrides a member, and return all that it prints."""
    with running(*python("lbdns", *words, "-c", str(site.config))) as command:
        assert command.wait() == 0, command.errors
        return command.output + command.errors


def in_force(site: Site) -> list[tuple[Any, ...]]:
    overrides = (each for member in site.members_by_name().values() for each in member["overrides"])
    return sorted((each["kind"], each["member"], each["factor"], each["server"]) for each in overrides)


def test_an_order_on_one_of_three_servers(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, jetstream=True)
    one = site_in(tmp_path / "one", bus)
    two, three = site_in(tmp_path / "two", bus, one), site_in(tmp_path / "three", bus, one)
    with serving_bus(bus), sharing(one), sharing(two):
        assert f"drained by root at {HOST}: kernel" in order(one, "drain", "frodo", "--reason", "kernel")
        eventually(lambda: in_force(two) == [("drain", "frodo.hobbit", 1.0, HOST)], "the drain arrives")
        with running(*python("lbdns", "explain", "best.hobbit", "-c", str(two.config))) as command:
            assert command.wait() == 0, command.errors
            assert f"drained by root at {HOST} " in command.output
        with sharing(three):
            assert in_force(three) == in_force(two)
            order(three, "undrain", "frodo")
            eventually(lambda: not in_force(one) and not in_force(two), "its end arrives")
            with contextlib.ExitStack() as stack:
                commands = [
                    stack.enter_context(
                        running(*python("lbdns", "weight", "frodo", str(factor), "-c", str(site.config)))
                    )
                    for factor, site in ((2, one), (3, two), (4, three))
                ]
                assert [each.wait() for each in commands] == [0, 0, 0]
            sites = (one, two, three)
            eventually(
                lambda: all(site.status()["shared_overrides"]["pending"] == 0 for site in sites), "all are decided"
            )
            eventually(lambda: in_force(one) == in_force(two) == in_force(three) != [], "all servers agree")
            assert one.metric("lbdns_shared_overrides_connected") == 1


def test_a_nats_server_that_is_killed_and_loses_its_store(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, jetstream=True)
    one = site_in(tmp_path / "one", bus)
    two, three = site_in(tmp_path / "two", bus, one), site_in(tmp_path / "three", bus, one)
    with contextlib.ExitStack() as first:
        nats = first.enter_context(serving_bus(bus))
        with sharing(one), sharing(two):
            order(one, "force", "gandalf", "up")
            eventually(lambda: in_force(two), "the order arrives")
            nats.stop(signal.SIGKILL)
            eventually(lambda: not is_sharing(one) and not is_sharing(two), "the loss is noticed")
            assert "cut off from the other servers since" in order(one, "drain", "frodo")
            with running(*python("lbdns", "status", "-c", str(one.config))) as command:
                assert command.wait() == 0, command.errors
                shown = " ".join(command.output.split())  # without the line breaks
                assert "overrides: cut off from the other servers since" in shown
                assert "not sent yet: 1 order" in shown
            shutil.rmtree(bus.store)
            with serving_bus(bus):
                expected = [("drain", "frodo.hobbit", 1.0, HOST), ("up", "gandalf.hobbit", 1.0, HOST)]
                eventually(lambda: in_force(two) == expected, "the order arrives")
                with sharing(three):
                    eventually(lambda: in_force(three) == expected, "a new server reads both")


def test_a_take_over_and_a_reload(tmp_path: Path) -> None:
    bus = new_bus(tmp_path, jetstream=True)
    one = site_in(tmp_path / "one", bus)
    two = site_in(tmp_path / "two", bus, one)
    with serving_bus(bus), sharing(two), sharing(one) as old:
        order(one, "drain", "frodo")
        with running(*python("lbdns", "serve", "-c", str(one.config), "--take-over")) as new:
            new.until(lambda: not old.running, "the old server ends")
            new.until(lambda: is_sharing(one), "the new server shares its overrides")
            assert in_force(one) == [("drain", "frodo.hobbit", 1.0, HOST)]
            order(two, "undrain", "frodo")
            new.until(lambda: in_force(one) == [], "its end arrives")
            order(two, "weight", "frodo", "0.5")
            new.until(lambda: in_force(one) == [("weight", "frodo.hobbit", 0.5, HOST)], "the weight arrives")
            one.config.write_text(one.config.read_text().replace(f"{bus.section()}share_overrides = true\n", ""))
            with running(*python("lbdns", "reload", "-c", str(one.config))) as command:
                assert command.wait() == 0, command.errors
            assert "shared_overrides" not in one.status()
            assert in_force(one) == [("weight", "frodo.hobbit", 0.5, "")]
