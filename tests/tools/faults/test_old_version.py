"""Tests of extracting an older version from the checkout's history."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.faults import old_version


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.net")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout with three commits, each with another text in lbdns/__init__.py."""
    folder = tmp_path / "checkout"
    for package in old_version.PACKAGES:
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("")
    git(folder, "init", "--quiet")
    for text in ("first", "second", "third"):
        (folder / "lbdns" / "__init__.py").write_text(f"# {text}\n")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", text)
    monkeypatch.setattr(old_version, "CHECKOUT", folder)
    monkeypatch.setattr(old_version, "BACK", 2)
    monkeypatch.delenv(old_version.VARIABLE, raising=False)
    old_version.revision.cache_clear()
    yield folder
    old_version.revision.cache_clear()


def test_without_a_tag_some_commits_back(checkout: Path, tmp_path: Path) -> None:
    assert old_version.why_unavailable() == ""
    program = old_version.extract(tmp_path / "old")
    assert (tmp_path / "old" / "lbdns" / "__init__.py").read_text() == "# first\n"
    assert f"--chdir={tmp_path}/old" in program.command("serve")
    assert old_version.agent_command(program)[-2:] == ("-m", "lbdns_agent")


def test_the_newest_tag_before_this_commit(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "tag", "v2", "HEAD~1")
    old_version.extract(tmp_path / "old")
    assert (tmp_path / "old" / "lbdns" / "__init__.py").read_text() == "# second\n"


def test_a_named_version(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(old_version.VARIABLE, "HEAD")
    old_version.extract(tmp_path / "old")
    assert (tmp_path / "old" / "lbdns" / "__init__.py").read_text() == "# third\n"


def test_without_older_commits(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_version, "BACK", 50)
    assert old_version.revision() == ""
    assert "not a Git checkout with older commits" in old_version.why_unavailable()
    with pytest.raises(LbdnsError, match="cannot read the older version"):
        old_version.extract(tmp_path / "old")
