"""Tests of the program lbdns-scaler: its group, help, version and the command trace."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lbdns.command_line.run_command import run
from lbdns_tools import __version__
from lbdns_tools.scaler.scaler_command import command


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "lbdns-scaler", ["--help"]) == 0
    out = capsys.readouterr().out
    assert {"replay", "trace"} <= set(command.commands)
    assert all(f"\n  {name}" in out for name in command.commands)
    assert "Examples:" in out


@pytest.mark.parametrize("name", ["replay", "trace"])
def test_every_command_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "lbdns-scaler", [name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"lbdns-scaler {name}" in out.partition("Example")[2]
    assert "Exit status" in out


def test_unknown_commands_get_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "lbdns-scaler", ["reply"]) == 2
    assert "unknown command 'reply'. Perhaps you meant 'replay'?" in capsys.readouterr().err


def test_the_program() -> None:
    line = [sys.executable, "-m", "lbdns_tools.scaler", "--version"]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    assert done.stdout == f"lbdns-scaler {__version__}\n"
