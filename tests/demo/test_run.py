"""Tests of the text that the demo prints when it is ready."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from lbdns.demo import run
from lbdns.demo.farm_files import DemoPlan
from lbdns.demo.run import _program, _what_to_try


def test_the_explanations_of_commands_are_aligned() -> None:
    plan = DemoPlan(dns_port=5300, report_port=7777, http_port=8053, web_port=8080, ipv6=False)
    lines = _what_to_try(plan, Path("/tmp/lbdns.toml"), 1.5).splitlines()
    columns = {
        line.split(what)[0]: len(line.split(what)[0])
        for line in lines
        for what in ("the best server now", "each member in turn", "the reverse zone", "why")
        if re.search(rf"  {what}$|\S {what}$", line)
    }
    assert len(columns) == 4
    assert len(set(columns.values())) == 1, columns


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "lbdns"
    path.parent.mkdir()
    path.touch(0o755)
    return path


@pytest.mark.parametrize(
    ("search", "environment", "found"),
    [
        ("{bin}", "", "lbdns"),
        ("/nonexistent", "", "{bin}/lbdns"),
        ("{bin}", "/an/activated/environment", "{bin}/lbdns"),  # the PATH of another terminal lacks it
    ],
)
def test_the_shortest_command_that_another_terminal_finds(
    program: Path, monkeypatch: pytest.MonkeyPatch, search: str, environment: str, found: str
) -> None:
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    monkeypatch.setenv("PATH", search.format(bin=program.parent))
    monkeypatch.setenv("VIRTUAL_ENV", environment)
    assert _program() == found.format(bin=program.parent)


def test_the_command_of_a_checkout(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bin/lbdns", "demo"])
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.chdir(program.parent.parent)
    assert _program() == "bin/lbdns"


@pytest.mark.parametrize(
    ("program", "where"),
    [
        ("lbdns", "Try, in another terminal:"),
        ("/opt/lbdns/bin/lbdns", "Try, in another terminal:"),
        (".venv/bin/lbdns", "Try, in another terminal, in this directory:"),
    ],
)
def test_a_relative_command_works_in_this_directory_only(
    program: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_program", lambda: program)
    lines = _what_to_try(DemoPlan(), Path("/tmp/lbdns.toml"), 1.5).splitlines()
    assert where in lines
    assert any(line.startswith(f"  {program} ask best.hobbit ") for line in lines)
