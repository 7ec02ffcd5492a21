"""A server that gives up root while its own code, or a file that a reload reads, is readable by root only."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.harness import FakeAgent, answers, new_site
from tests.end_to_end.process import eventually, python, running
from tests.needs import needs

ROOT = Path(__file__).parents[2]
MEMBERS = {"bilbo": ["127.0.0.16"], "frodo": ["127.0.0.17"]}
PACKAGES = ("lbdns", "agent/lbdns_agent", "agent/lbdns_shared", "collector/lbdns_collector")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can read, unlike ``tmp_path``."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def private(folder: Path) -> Path:
    """A copy of the code that only root can read."""
    copy = folder / "private"
    copy.mkdir(0o700)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / Path(package).name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@needs(root=True)
def test_a_checkout_that_only_root_can_read(folder: Path, private: Path) -> None:
    site = new_site(folder, MEMBERS, master=None)
    site.write(server='user = "nobody"')
    command = ["env", f"PYTHONPATH={private}", *python("lbdns", "serve", "-c", str(site.config))]
    with running(*command) as server:
        server.until(lambda: answers(site), "lbdns serve answers")
        for path in ("/", "/js/event-log.js", "/api/v1/status", "/metrics", "/api/v1/explain?name=best.hobbit"):
            assert site.page(path), path
        assert server.stop() == 0
        assert "Traceback" not in server.errors


@needs(root=True)
def test_a_collector_whose_code_only_root_can_read(folder: Path, private: Path) -> None:
    site = new_site(folder, MEMBERS, master=None)
    site.write(server='user = "nobody"')
    command = ["env", f"PYTHONPATH={private}", *python("lbdns_collector", "-c", str(site.config))]
    with running(*command) as collector:
        collector.until(lambda: "ready" in collector.errors, "lbdns-collector is ready")
        for path in ("/", "/api/v1/status", "/metrics"):
            assert site.page(path), path
        assert collector.stop() == 0
        assert "Traceback" not in collector.errors


@needs(root=True)
def test_a_key_that_the_next_reload_cannot_read_is_told_at_the_start(folder: Path) -> None:
    site = new_site(folder, MEMBERS)
    site.write(server='user = "nobody"')
    with running(*python("lbdns", "serve", "-c", str(site.config))) as server:
        server.until(lambda: answers(site), "lbdns serve answers")
        told = (
            f"user nobody cannot read {site.key_file}, so the next reload will fail; run 'chown nobody {site.key_file}'"
        )
        server.until(lambda: told in server.errors, told)
        FakeAgent(site, "frodo").send()
        eventually(lambda: site.members_by_name()["frodo"]["state"] == "usable", "reports are accepted all the same")


@needs(root=True)
def test_a_folder_that_only_root_can_enter_is_told_at_the_start(folder: Path) -> None:
    """To change the owner of the files in the folder would not help."""
    site = new_site(folder, MEMBERS, master=None)
    site.write(server='user = "nobody"')
    folder.chmod(0o700)
    with running(*python("lbdns", "serve", "-c", str(site.config))) as server:
        server.until(lambda: answers(site), "lbdns serve answers")
        told = f"user nobody cannot enter the folder {folder}, so the next reload will fail; run 'chmod o+x {folder}'"
        server.until(lambda: told in server.errors, told)
        assert "chown" not in server.errors
