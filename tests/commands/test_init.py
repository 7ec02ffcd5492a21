"""Tests of ``lbdns init``: the files serve a farm, and the printed steps are commands that work."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lbdns.cli import lbdns
from lbdns.command_line.run_command import run
from lbdns_shared.keys import read_key_file

OPTIONS = ("--zone", "Example.net.", "--address", "127.0.0.1", "--member", "frodo=192.0.2.2", "--user", "")


def init(folder: Path, *options: str) -> int:
    return run(lbdns, "lbdns", ["init", "--dir", str(folder), *options])


def test_the_configuration_passes_its_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(tmp_path / "lbdns", *OPTIONS, "--member", "bilbo=192.0.2.3,2001:db8::3") == 0
    steps = capsys.readouterr().out
    assert run(lbdns, "lbdns", ["check", "-c", str(tmp_path / "lbdns" / "lbdns.toml")]) == 0
    checked = capsys.readouterr().out
    assert "www.example.net" in checked
    assert "warnings" not in checked
    assert (
        f"written: {tmp_path}/lbdns/lbdns.toml, {tmp_path}/lbdns/example.net.zone, {tmp_path}/lbdns/report.key" in steps
    )
    assert "example.net.  NS  ns.example.net." in steps
    assert "lbdns-agent --collector 127.0.0.1 --key-file /etc/lbdns/agent.key" in steps


def test_the_command_that_carries_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The printed line runs with an ``ssh`` that runs its command here, below another root."""
    assert init(tmp_path / "lbdns", *OPTIONS) == 0
    line = next(line.strip() for line in capsys.readouterr().out.splitlines() if "| ssh" in line)
    programs, remote = tmp_path / "bin", tmp_path / "remote"
    programs.mkdir()
    ssh = f'#!/bin/sh\n[ "$1" = root@192.0.2.2 ] || exit 1\neval "$(echo "$2" | sed "s#/etc#{remote}/etc#g")"\n'
    (programs / "ssh").write_text(ssh)
    (programs / "lbdns").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m lbdns "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    subprocess.run(line, shell=True, check=True, env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
    key = remote / "etc" / "lbdns" / "agent.key"
    assert key.stat().st_mode & 0o077 == 0
    assert [agent.host for agent in read_key_file(key)[0].agents] == ["frodo"]


def test_it_asks_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["exa mple", "example.net", "192.0.2.53", "frodo", "frodo=192.0.2.2 bilbo=192.0.2.3"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: next(answers))
    assert init(tmp_path / "lbdns", "--user", "") == 0
    text = (tmp_path / "lbdns" / "lbdns.toml").read_text()
    assert 'members = ["frodo", "bilbo"]' in text
    assert "listen" not in text, "192.0.2.53 is not an address of this machine"
    assert "is not a domain name" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ((), 2, "standard input is not a terminal, so these options are required: --zone, --address, --member"),
        ((*OPTIONS, "--member", "frodo=192.0.2.9"), 2, "frodo appears twice"),
        ((*OPTIONS, "--member", "frodo"), 2, "write a web server as NAME=ADDRESS"),
        ((*OPTIONS, "--name", "ns"), 2, "'ns' is already in use"),
    ],
)
def test_errors_write_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], status: int, message: str
) -> None:
    assert init(tmp_path / "lbdns", *options) == status
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "lbdns").exists()


def test_a_second_time_it_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(tmp_path, *OPTIONS) == 0
    key = (tmp_path / "report.key").read_text()
    assert init(tmp_path, *OPTIONS) == 1
    assert "already exists; nothing has been written" in capsys.readouterr().err
    assert (tmp_path / "report.key").read_text() == key
