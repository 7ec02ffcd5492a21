"""Shared answers: several ``lbdns serve`` on a real nats-server that count each other's answers."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.harness import Site, ask, new_site, serving
from tests.end_to_end.nats_bus import Bus, new_bus, serving_bus
from tests.end_to_end.process import Program, eventually, python, running
from tests.needs import needs

pytestmark = needs(programs=("nats-server",))

MEMBERS = {"gandalf": ["127.0.0.18"], "frodo": ["127.0.0.17"]}


def site_in(folder: Path, bus: Bus, other: Site | None = None, more: str = "") -> Site:
    """Write the files of a server in a new folder. ``other`` is a site with the same key."""
    folder.mkdir()
    site = new_site(folder, MEMBERS, **({"master": other.master} if other else {}))
    site.write()
    with site.config.open("a") as file:
        file.write(f"{bus.section()}{more}")
    return site


@contextlib.contextmanager
def sharing(*sites: Site) -> Iterator[list[Program]]:
    """Run servers, and yield them once each of them hears all others."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(site)) for site in sites]
        for site in sites:
            eventually(lambda site=site: heard(site) == len(sites) - 1, "all others are heard")  # type: ignore[misc]
        yield servers


def heard(site: Site) -> int:
    return len(site.status()["shared_answers"]["servers"])


def answers_heard(site: Site) -> list[int]:
    """Return how many answers the others have stated so far."""
    return sorted(server["answers"] for server in site.status()["shared_answers"]["servers"])


@pytest.mark.parametrize("workers", [1, 2])
def test_three_servers_count_each_others_answers(tmp_path: Path, workers: int) -> None:
    bus = new_bus(tmp_path)
    one = site_in(tmp_path / "one", bus)
    two, three = site_in(tmp_path / "two", bus, one), site_in(tmp_path / "three", bus, one)
    for site in (one, two, three):
        site.config.write_text(site.config.read_text().replace("[server]", f"[server]\nworkers = {workers}", 1))
    with serving_bus(bus), sharing(one, two, three) as servers:
        for _ in range(30):
            ask(one, "weighted.hobbit")
        for _ in range(10):
            ask(two, "weighted.hobbit")
        eventually(lambda: answers_heard(three) == [10, 30], "the third server hears all answers")
        eventually(lambda: answers_heard(two) == [0, 30], "the second one hears those of the others")
        assert one.metric("lbdns_shared_answers_connected") == 1
        assert one.metric("lbdns_shared_answers_servers") == 2
        assert one.metric("lbdns_shared_answers_messages_total", result="accepted") > 0
        servers[0].stop(signal.SIGKILL)
        eventually(lambda: heard(two) == 1 and heard(three) == 1, "a server that is killed no longer counts")


def test_the_rate_of_all_servers_counts(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    one = site_in(tmp_path / "one", bus)
    two = site_in(tmp_path / "two", bus, one)
    with serving_bus(bus), sharing(one, two):

        def is_counted() -> bool:
            ask(one, "weighted.hobbit")
            with running(*python("lbdns", "explain", "weighted.hobbit", "--json", "-c", str(two.config))) as command:
                assert command.wait() == 0, command.errors
                return float(json.loads(command.output)["answers_per_s"]) > 0

        eventually(is_counted, "the server that answers nothing knows the rate of the other one")


def test_a_stranger_is_not_heard(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    one = site_in(tmp_path / "one", bus)
    two, stranger = site_in(tmp_path / "two", bus, one), site_in(tmp_path / "stranger", bus)
    with serving_bus(bus), serving(stranger), sharing(one, two):
        ask(stranger, "best.hobbit")
        eventually(
            lambda: one.metric("lbdns_shared_answers_messages_total", result="bad_tag") > 0, "its messages are refused"
        )
        assert heard(one) == 1
        assert heard(stranger) == 0


def test_a_killed_nats_server_a_reload_and_a_take_over(tmp_path: Path) -> None:
    bus = new_bus(tmp_path)
    one = site_in(tmp_path / "one", bus)
    two = site_in(tmp_path / "two", bus, one)
    with contextlib.ExitStack() as first:
        nats = first.enter_context(serving_bus(bus))
        with sharing(one, two) as servers:
            nats.stop(signal.SIGKILL)
            eventually(lambda: heard(one) == heard(two) == 0, "nobody is heard any more")
            assert one.metric("lbdns_shared_answers_connected") == 0
            assert ask(one, "best.hobbit").answer, "answers go on"
            with serving_bus(bus):
                eventually(lambda: heard(one) == heard(two) == 1, "they hear each other again")
                with running(*python("lbdns", "serve", "-c", str(one.config), "--take-over")) as new:
                    new.until(lambda: not servers[0].running, "the old server ends")
                    new.until(lambda: heard(one) == 1 and heard(two) == 1, "the new server is heard instead")
                    text = one.config.read_text()
                    one.config.write_text(f"{text}share_answers = false\n")
                    with running(*python("lbdns", "reload", "-c", str(one.config))) as command:
                        assert command.wait() == 0, command.errors
                    assert "shared_answers" not in one.status()
                    new.until(lambda: heard(two) == 0, "it is silent after a reload")


def test_a_missing_permission_is_shown(tmp_path: Path) -> None:
    bus = replace(new_bus(tmp_path), answers="another.subject")
    bus.write()
    one = site_in(tmp_path / "one", bus)
    with serving_bus(bus), serving(one):
        eventually(lambda: "lbdns.answers" in one.status()["shared_answers"]["problem"], "the refusal is shown")
        with running(*python("lbdns", "status", "-c", str(one.config))) as command:
            assert command.wait() == 0, command.errors
            assert "answers: not shared with the other servers:" in " ".join(command.output.split())
