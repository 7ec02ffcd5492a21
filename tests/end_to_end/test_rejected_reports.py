"""Real agents whose reports a real server rejects: what the server shows, and what the agents log."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_shared.keys import agent_line, new_master_key
from tests.end_to_end.harness import Site, new_site, serving
from tests.end_to_end.process import PATIENCE, Program, eventually, python, running

FARM = {"gandalf": ["192.0.2.3"], "frodo": ["192.0.2.2"]}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    found = new_site(tmp_path, FARM)
    found.write()
    return found


@contextlib.contextmanager
def agent(site: Site, name: str, *options: str) -> Iterator[Program]:
    with running(*python(
        "lbdns_agent", "--collector", f"127.0.0.1:{site.report_port}", "--name", name, "--gateway", "off",
        "--server-status", "off", "--status-url", f"http://127.0.0.1:{site.http_port}", *options,
    )) as program:  # fmt: skip
        yield program


def rejected(site: Site, host: str) -> set[str]:
    """Return the reasons for which the server rejects reports that claim to come from ``host``."""
    return {
        reason for each in site.status()["reports"]["rejected"] if each["host"] == host for reason in each["counts"]
    }


def logs(program: Program, text: str) -> None:
    """Wait until the agent has logged ``text``; the agent waits 8 s before it logs a problem."""
    program.until(lambda: text in program.errors, text, 2 * PATIENCE)


def test_a_wrong_key_and_a_wrong_name(site: Site) -> None:
    wrong = site.folder / "wrong.key"
    wrong.write_text(agent_line(new_master_key().agent_key("frodo")) + "\n")
    wrong.chmod(0o600)
    good = ("--key-file", str(site.agent_key_file("gandalf")))
    with (
        serving(site),
        agent(site, "gandalf", *good) as gandalf,
        agent(site, "frodo", "--key-file", str(wrong)) as frodo,
        agent(site, "gandlaf", "--key-file", str(site.agent_key_file("gandlaf"))) as typo,
    ):
        eventually(lambda: rejected(site, "frodo") == {"bad_tag"}, "frodo is shown")
        eventually(lambda: rejected(site, "gandlaf") == {"unknown_host"}, "gandlaf is shown")
        command = python("lbdns", "status", "-c", str(site.config))
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        assert "127.0.0.1 as frodo, key " in shown
        assert "unknown_host: no member with an agent has this name" in " ".join(shown.split())
        logs(frodo, "does not accept this host's reports: bad_tag: the signature with key")
        logs(typo, "does not accept this host's reports: the collector has no member named 'gandlaf'")
        assert "does not accept" not in gandalf.errors
        assert rejected(site, "gandalf") == set()


def test_a_server_that_cannot_be_reached_and_comes_back(site: Site) -> None:
    with agent(site, "gandalf", "--key-file", str(site.agent_key_file("gandalf"))) as gandalf:
        logs(gandalf, f"collector 127.0.0.1:{site.report_port} can't be reached: Connection refused")
        logs(gandalf, "can't find out whether the collector accepts this host's reports: Connection refused")
        with serving(site):
            logs(gandalf, f"collector 127.0.0.1:{site.report_port} can be reached again")
            eventually(lambda: site.members_by_name()["gandalf"]["state"] == "usable", "reports arrive")
