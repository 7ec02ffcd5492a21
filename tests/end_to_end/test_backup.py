"""A backup of a real server under load, restored elsewhere: members, overrides, serials and history are there again."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lbdns.backup.state_files import STATE_FILES
from lbdns.client.control_client import send_command
from lbdns_collector.reports.sequence_file import read
from tests.end_to_end.harness import Site, ask, serving
from tests.end_to_end.process import PATIENCE, eventually, python, running
from tests.end_to_end.test_joining import JoiningAgent, addresses, agents, serial, written


@contextlib.contextmanager
def load(site: Site, agent: JoiningAgent) -> Iterator[None]:
    """Send about a hundred queries and reports per second. Every query must be answered."""
    stop, failures = threading.Event(), list[Exception]()

    def send() -> None:
        try:
            while not stop.wait(0.01):
                agent.report()
                assert ask(site, "round.robin.hobbit").answer
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert failures == []


def lbdns(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = python("lbdns", arguments[0], "-c", str(site.config), *arguments[1:])
    return subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)


def overrides(site: Site) -> dict[str, list[str]]:
    return {
        name: [override["kind"] for override in member["overrides"]]
        for name, member in site.members_by_name().items()
        if member.get("overrides")
    }


def history(site: Site) -> list[str]:
    """Return the recorded seconds with a report of web-1, as lines of CSV."""
    done = lbdns(site, "history", "--metric", "cpu_idle", "--member", "web-1", "--csv", "--points", "4000")
    return [line for line in done.stdout.splitlines()[1:] if not line.endswith(",")]


def elsewhere(site: Site, folder: Path) -> Site:
    """Write the files of a server on the same ports with a state directory of its own."""
    other = replace(site, folder=folder)
    folder.mkdir()
    for name in ("lbdns.toml", "hobbit.zone", "report.key"):
        (folder / name).write_bytes((site.folder / name).read_bytes())
    return other


def test_a_backup_is_restored_elsewhere(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    site, archive = written(first), tmp_path / "lbdns.tar.gz"
    with agents(site, "web-1") as (agent,):
        with serving(site), load(site, agent):
            eventually(lambda: addresses(site, "web-1") == ["127.0.1.1"], "the host joins")
            send_command(first / "control.sock", "drain", member="gandalf", reason="new disk", force=True)
            send_command(first / "control.sock", "weight", member="web-1", factor=0.5)
            wanted, was = overrides(site), serial(site)
            eventually(lambda: len(history(site)) >= 2, "the history is recorded", step=0.5)
            names = ("overrides.json", "joined.json", "serials.json", "report-sequences", "history.db")
            eventually(lambda: all((first / "state" / name).exists() for name in names), "every file is written")
            done = lbdns(site, "backup", str(archive))
            assert (done.returncode, done.stderr) == (0, "")
            assert all(name in done.stdout for name in names)
            recorded = history(site)[:2]
            refused = lbdns(site, "restore", str(archive))
            assert refused.returncode == 1
            assert "stop it first" in refused.stderr
        # The server has been killed
        known = {name for file in STATE_FILES.values() for name in (file.name, *file.companions)}
        found = {path.name for path in (first / "state").iterdir() if not path.name.startswith(".")}
        assert found <= {*known, "lock"}, "the list of state files is complete"
        other = elsewhere(site, tmp_path / "second")
        done = lbdns(other, "restore", str(archive))
        assert (done.returncode, done.stderr) == (0, "")
        assert "web-1" in read(tmp_path / "second" / "state" / "report-sequences")
        with serving(other) as server:
            assert addresses(other, "web-1") == ["127.0.1.1"], "before any report"
            assert overrides(other) == wanted == {"gandalf": ["drain"], "web-1": ["weight"]}
            assert serial(other) >= was
            assert history(other)[:2] == recorded
            assert server.stop() == 0


def test_a_collector_uses_its_state_directory(tmp_path: Path) -> None:
    site, archive = written(tmp_path), tmp_path / "lbdns.tar.gz"
    with agents(site, "web-1") as (agent,), running(*python("lbdns_collector", "-c", str(site.config))) as collector:
        collector.until(lambda: "ready" in collector.errors, "the collector is ready")
        agent.report()
        eventually((tmp_path / "state" / "joined.json").exists, "the host joins")
        assert lbdns(site, "backup", str(archive)).returncode == 0
        refused = lbdns(site, "restore", str(archive))
        assert refused.returncode == 1
        assert f"{tmp_path / 'state'}: a running server, a backup or another restore uses" in refused.stderr
        assert collector.stop() == 0
    assert lbdns(site, "restore", str(archive)).returncode == 0
