"""Tests of overrides on real servers: dig and the status show the effects of ``drain``, ``force`` and ``weight``."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lbdns.client import control_client
from tests.answering.asking import make_query, read
from tests.end_to_end.harness import FakeAgent, Site, agents, best, dig, new_site, serving
from tests.end_to_end.process import PATIENCE, eventually, python, running
from tests.end_to_end.protocol import PLANES
from tests.needs import needs

MEMBERS = {"bilbo": ["127.0.0.16"], "frodo": ["127.0.0.17"], "gandalf": ["127.0.0.18"]}
ALL = {"bilbo", "frodo", "gandalf"}
USER = pwd.getpwuid(os.getuid()).pw_name
LONG = 600.0  # s between reports: nobody falls silent meanwhile

pytestmark = needs(programs=("dig",))


def write(site: Site, workers: int = 1, plane: str = "auto") -> None:
    site.write(
        server=f'workers = {workers}\nplane = "{plane}"',
        pool='names = { best = "best", "round.robin" = "round_robin", top = "best_score" }',
    )


@contextmanager
def steered(folder: Path, workers: int = 1, plane: str = "auto") -> Iterator[tuple[Site, dict[str, FakeAgent]]]:
    """Write a site's files, and yield the site with a fake agent for each member."""
    site = new_site(folder, MEMBERS)
    write(site, workers, plane)
    with agents(site, LONG) as reporting:
        yield site, reporting


def all_report(site: Site, reporting: dict[str, FakeAgent]) -> None:
    for agent in reporting.values():
        agent.send()
    eventually(lambda: all(m["age_s"] is not None for m in site.members_by_name().values()), "all have reported")


def order(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*python("lbdns", *arguments), "--control", str(site.folder / "control.sock")]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def ordered(site: Site, *arguments: str) -> str:
    """Run a command that must succeed, and return its output."""
    done = order(site, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def handed_out(site: Site, name: str = "round.robin.hobbit") -> set[str]:
    """Return the members named in 24 answers to queries from several ports."""
    found = Counter[str]()
    for _ in range(3):
        lines = dig(site, "+short", *[word for _ in range(8) for word in (name, "CNAME")]).split()
        found.update(line.partition(".")[0] for line in lines)
    assert sum(found.values()) == 24
    return set(found)


def states(site: Site) -> dict[str, str]:
    return {name: member["state"] for name, member in site.members_by_name().items()}


@pytest.mark.parametrize(
    ("workers", "plane"),
    [(1, "python"), *(pytest.param(workers, "native", marks=needs(native=True)) for workers in (1, 2))],
)
def test_a_drain_holds_from_the_next_query_on(tmp_path: Path, workers: int, plane: str) -> None:
    with steered(tmp_path, workers, plane) as (site, reporting), serving(site) as server:
        all_report(site, reporting)
        assert handed_out(site) == ALL
        assert "gandalf.hobbit: drained until " in ordered(site, "drain", "gandalf", "--for", "2h")
        assert handed_out(site) == {"bilbo", "frodo"}
        assert ordered(site, "undrain", "gandalf") == f"gandalf.hobbit: no longer drained by {USER}\n"
        assert handed_out(site) == ALL
        for _ in range(20):
            control_client.send_command(site.folder / "control.sock", "drain", member="frodo")
            for _ in range(6):
                assert best(site, "round.robin.hobbit") != "frodo"
            control_client.send_command(site.folder / "control.sock", "undrain", member="frodo")
        for text in (f"pool web: gandalf drained by {USER} for 2h", "gandalf is drained (was usable)"):
            server.until(lambda: text in server.errors, text)  # noqa: B023
        assert "Traceback" not in server.errors


@pytest.mark.parametrize("plane", PLANES)
def test_who_asks_again_is_not_sent_to_who_is_drained(tmp_path: Path, plane: str) -> None:
    with steered(tmp_path, 1, plane) as (site, reporting), serving(site):
        all_report(site, reporting)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(PATIENCE)
            client.connect((site.address, site.dns_port))

            def given(rdtype: str, number: int) -> str:
                client.send(make_query("round.robin.hobbit", rdtype, ident=number))
                return str(read(client.recv(4096)).answer[0][0]).partition(".")[0]

            first = given("A", 7)
            assert given("A", 7) == first, "asked again"
            ordered(site, "drain", first)
            assert given("A", 7) != first
            assert given("AAAA", 8) != first, "nor what belongs to the first question"


def test_force_and_weight_reach_the_answers(tmp_path: Path) -> None:
    with steered(tmp_path, 2) as (site, reporting), serving(site):
        all_report(site, reporting)
        ordered(site, "force", "frodo", "down")
        assert handed_out(site) == {"bilbo", "gandalf"}
        ordered(site, "force", "frodo", "up")
        reporting["frodo"].send("alarm", "disk")
        eventually(lambda: site.members_by_name()["frodo"]["alarm"] == "disk", "the alarm is heard")
        assert handed_out(site) == ALL
        ordered(site, "force", "frodo", "auto")
        assert handed_out(site) == {"bilbo", "gandalf"}
        ordered(site, "weight", "gandalf", "2")
        assert handed_out(site, "top.hobbit") == {"gandalf"}, "twice the score"


def test_everybody_is_told_who_when_and_why(tmp_path: Path) -> None:
    with steered(tmp_path) as (site, reporting), serving(site):
        all_report(site, reporting)
        out = ordered(site, "drain", "gandalf", "--reason", "new kernel", "--for", "1h")
        assert out.endswith(f" by {USER}: new kernel\n")
        member = site.members_by_name()["gandalf"]
        assert (member["state"], member["reason"]) == ("drained", f"drained by {USER}: new kernel")
        (told,) = member["overrides"]
        assert (told["kind"], told["by"], told["reason"]) == ("drain", USER, "new kernel")
        assert told["until"] - told["since"] == pytest.approx(3600)
        explained = json.loads(site.page("/api/v1/explain?name=best.hobbit"))
        gandalf: dict[str, Any] = next(m for m in explained["members"] if m["name"] == "gandalf")
        assert (gandalf["overrides"], gandalf["candidate"]) == ([told], False)
        log = json.loads(site.page("/api/v1/log?kind=override"))["events"]
        assert [event["text"] for event in log] == [f"pool web: gandalf drained by {USER} for 1h: new kernel"]
        refused = order(site, "drain", "gandolf")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Perhaps you meant 'gandalf'?" in refused.stderr


def test_the_last_one_is_only_drained_by_force(tmp_path: Path) -> None:
    with steered(tmp_path) as (site, reporting), serving(site):
        all_report(site, reporting)
        ordered(site, "drain", "gandalf")
        ordered(site, "drain", "frodo")
        refused = order(site, "drain", "bilbo")
        assert refused.returncode == 1
        assert f"bilbo is the last usable member of pool web (the others: frodo: drained by {USER}" in refused.stderr
        assert handed_out(site) == {"bilbo"}
        ordered(site, "drain", "bilbo", "--force")
        assert handed_out(site) == ALL
        assert site.status()["pools"][0]["fail_open"]


@pytest.mark.parametrize("workers", [1, 2])
def test_orders_outlive_restart_reload_and_take_over(tmp_path: Path, workers: int) -> None:
    with steered(tmp_path, workers) as (site, reporting):
        with serving(site) as server:
            all_report(site, reporting)
            ordered(site, "drain", "gandalf", "--reason", "new kernel")
            ordered(site, "force", "frodo", "up")
            server.process.send_signal(signal.SIGHUP)
            server.until(lambda: "reload: done" in server.errors, "the reload is done")
            assert handed_out(site) == {"bilbo", "frodo"}
            assert server.stop() == 0
        with serving(site) as old:
            kept = f"still in force after the restart: gandalf.hobbit drained by {USER}: new kernel"
            old.until(lambda: kept in old.errors, kept)
            assert states(site) == {"bilbo": "unknown", "frodo": "usable", "gandalf": "drained"}
            assert handed_out(site) == {"frodo"}
            all_report(site, reporting)
            with running(*python("lbdns", "serve", "-c", str(site.config), "--take-over")) as new:
                new.until(lambda: "ready:" in new.errors, "the new one serves")
                assert old.wait() == 0
                assert handed_out(site) == {"bilbo", "frodo"}
                assert f"gandalf.hobbit: drained by {USER}: new kernel" in ordered(site, "drain", "--list")
                ordered(site, "undrain", "gandalf")
                assert handed_out(site) == ALL
                assert new.stop() == 0
        with serving(site):
            assert states(site) == {"bilbo": "unknown", "frodo": "usable", "gandalf": "unknown"}


def test_an_order_ends_by_itself_also_after_a_restart(tmp_path: Path) -> None:
    with steered(tmp_path) as (site, reporting):
        with serving(site) as server:
            all_report(site, reporting)
            ordered(site, "drain", "gandalf", "--for", "1s")
            server.until(
                lambda: "gandalf no longer drained: the override expired after 1s" in server.errors, "it is over"
            )
            assert handed_out(site) == ALL
            ordered(site, "drain", "frodo", "--for", "3s")
            assert server.stop() == 0
        with serving(site) as server:
            server.until(
                lambda: states(site)["frodo"] == "drained" or "no longer drained" in server.errors, "it is kept"
            )
            server.until(
                lambda: "frodo no longer drained: the override expired after 3s" in server.errors, "it is over"
            )
            eventually(lambda: states(site)["frodo"] == "unknown", "frodo is as it reports")
            assert handed_out(site) == ALL


def test_a_reload_without_the_member_loses_no_drain(tmp_path: Path) -> None:
    with steered(tmp_path) as (site, reporting), serving(site) as server:
        all_report(site, reporting)
        ordered(site, "drain", "gandalf")
        whole = site.config.read_text()
        for count, text in enumerate([whole.replace(', "gandalf"', ""), whole], 1):
            site.config.write_text(text)
            server.process.send_signal(signal.SIGHUP)
            server.until(lambda: server.errors.count("reload: done") == count, "the reload is done")  # noqa: B023
            assert handed_out(site) == {"bilbo", "frodo"}
            note = " (no pool has this member now)" if count == 1 else ""
            assert ordered(site, "drain", "--list") == f"gandalf.hobbit: drained by {USER}{note}\n"


def test_secondaries_are_given_all_members(tmp_path: Path) -> None:
    site = new_site(tmp_path, MEMBERS)
    write(site)
    text = site.config.read_text()
    site.config.write_text(text.replace('file = "hobbit.zone"', 'file = "hobbit.zone"\ntransfer = ["127.0.0.1"]'))
    with agents(site, LONG) as reporting, serving(site):
        all_report(site, reporting)
        ordered(site, "drain", "gandalf")
        copy = dig(site, "hobbit", "AXFR", "+noall", "+answer").splitlines()
        assert {line.split()[-1] for line in copy if line.startswith("best.hobbit")} == {
            address for addresses in MEMBERS.values() for address in addresses
        }
