"""Recorded reports, replayed after a restart of the real server: the server takes none of them again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from lbdns_collector.reports.sequence_file import FILE_NAME, read
from tests.end_to_end.harness import FakeAgent, Site, new_site, serving
from tests.end_to_end.process import eventually, python, running

FARM = {"gandalf": ["192.0.2.3"], "frodo": ["192.0.2.2"]}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    found = new_site(tmp_path, FARM)
    found.write()
    return found


def rejects(site: Site, recorded: list[bytes]) -> None:
    """Replay the recorded reports, and check that the server rejects all of them."""
    agent = FakeAgent(site, "gandalf")
    for report in recorded:
        agent.send_bytes(report)
    eventually(lambda: site.metric("lbdns_reports_total", result="replay") == len(recorded), "all are rejected")
    assert site.metric("lbdns_reports_total", result="accepted") == 0
    assert site.members_by_name()["frodo"]["state"] == "silent", "frodo said bye"
    assert site.members_by_name()["gandalf"]["state"] == "unknown"
    agent.close()


def record(site: Site) -> list[bytes]:
    """Send reports that are accepted, the last of them frodo's "bye", and return the reports."""
    gandalf, frodo = FakeAgent(site, "gandalf"), FakeAgent(site, "frodo")
    reports = [gandalf.datagram(), frodo.datagram(), gandalf.datagram(), frodo.datagram("bye")]
    for report in reports:
        gandalf.send_bytes(report)
    eventually(lambda: site.metric("lbdns_reports_total", result="accepted") == 4, "all are accepted")
    gandalf.close()
    frodo.close()
    return reports


def test_after_a_clean_stop(site: Site) -> None:
    with serving(site) as server:
        recorded = record(site)
        assert server.stop() == 0
    with serving(site):
        rejects(site, recorded)


def test_after_a_kill(site: Site) -> None:
    """What was accepted more than a second before the kill is on disk."""
    path = site.folder / "state" / FILE_NAME
    with serving(site) as server:
        recorded = record(site)
        eventually(
            lambda: path.exists() and "frodo" in (saved := read(path)) and saved["frodo"][0][4], "the state is saved"
        )
        server.stop(signal.SIGKILL)
    with serving(site):
        rejects(site, recorded)


def test_after_a_take_over_and_a_kill(site: Site) -> None:
    with serving(site) as old:
        recorded = record(site)
        with running(*python("lbdns", "serve", "-c", str(site.config), "--take-over")) as new:
            assert old.wait() == 0
            new.until(lambda: "ready" in new.errors, "it has taken over")
            path = site.folder / "state" / FILE_NAME
            agent = FakeAgent(site, "gandalf")
            agent.seq = 10
            recorded.append(agent.datagram())
            agent.send_bytes(recorded[-1])
            eventually(lambda: read(path)["gandalf"][0][1] == 11, "the new process saves")
            agent.close()
            new.stop(signal.SIGKILL)
    with serving(site):
        rejects(site, recorded)


def test_a_separate_collector_remembers_too(site: Site) -> None:
    command = python("lbdns_collector", "-c", str(site.config))
    recorded: list[bytes] = []
    with running(*command) as collector:
        collector.until(lambda: "ready" in collector.errors, "it receives reports")
        recorded = record(site)
        assert collector.stop() == 0
    with running(*command) as collector:
        collector.until(lambda: "ready" in collector.errors, "it receives reports")
        rejects(site, recorded)
