"""Tests of the maintainer scripts of the Debian packages: valid for every shell, and no downgrade that loses state."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from lbdns.process.state_format import FILE_NAME, FORMAT, record_state_format
from lbdns_packaging.nfpm_packages import render_script

SCRIPTS: Final = Path(__file__).parents[2] / "packaging" / "scripts"
#: Debian's shell, which knows less than bash
SHELL: Final = "/bin/sh"


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*/*/*")), ids=lambda path: "-".join(path.parts[-3:]))
def test_it_is_valid(script: Path) -> None:
    text = render_script(script.read_text(), ["a.service", "b.socket"])
    assert not re.search(r"@\w+@", text)
    subprocess.run([SHELL, "-n"], input=text, text=True, check=True)


def run_preinst(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script that runs before the files of a package are unpacked, with ``folder`` for the state."""
    text = render_script((SCRIPTS / "deb" / "lbdns" / "preinst").read_text(), [])
    assert "/var/lib/lbdns" in text
    text = text.replace("/var/lib/lbdns", str(folder))
    return subprocess.run(
        [SHELL, "-s", *arguments], input=text, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.mark.parametrize("arguments", [("install",), ("install", "0.0.1"), ("upgrade", "9.8.7")])
def test_state_of_this_version_is_accepted(arguments: tuple[str, ...], tmp_path: Path) -> None:
    for _ in range(2):
        result = run_preinst(tmp_path, *arguments)
        assert (result.returncode, result.stdout) == (0, "")
        record_state_format(tmp_path)


@pytest.mark.parametrize("arguments", [("install", "9.8.7"), ("upgrade", "9.8.7")])
def test_state_of_a_newer_version_is_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(f'{{"format": {FORMAT + 1}, "program": "9.8.7"}}\n')
    result = run_preinst(tmp_path, *arguments)
    assert result.returncode == 1
    assert f"in format {FORMAT + 1}, but this version reads formats up to {FORMAT}." in result.stdout
    assert run_preinst(tmp_path, "abort-upgrade", "9.8.7").returncode == 0


@pytest.mark.parametrize("content", ["", "{}", '{"format": "x"}', "\0", '{"format": 99'])
def test_a_damaged_record(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    assert run_preinst(tmp_path, "upgrade", "9.8.7").returncode == ("99" in content)


def run_purge(package: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script that runs after a package was purged, with ``folder`` in front of every path."""
    text = render_script((SCRIPTS / "deb" / package / "postrm").read_text(), ["a.service"])
    text = re.sub(r"(?<![\w/])/(?=(etc|var|run)/)", f"{folder}/", text)
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "getent").write_text("#!/bin/sh\n")  # every user exists
    (programs / "userdel").write_text("#!/bin/sh\nexit 8\n")  # a process of the user runs
    for program in programs.iterdir():
        program.chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    return subprocess.run(
        [SHELL, "-s", "purge"], input=text, text=True, check=False, env={"PATH": path}, capture_output=True
    )


def test_a_purge_leaves_only_the_files_of_the_agent(tmp_path: Path) -> None:
    etc = tmp_path / "etc" / "lbdns"
    (etc / "keys").mkdir(parents=True)
    for name in ("lbdns.toml", "keys/agent.web1", "keys/report.key", "agent.conf", "agent.key"):
        (etc / name).write_text("")
    purged = run_purge("lbdns", tmp_path)
    assert (purged.returncode, purged.stderr.splitlines()) == (
        0, ["lbdns: the user lbdns remains: stop its processes, then run 'userdel lbdns'"]
    )  # fmt: skip
    assert sorted(path.name for path in etc.iterdir()) == ["agent.conf", "agent.key"]
    purged = run_purge("lbdns-agent", tmp_path)
    assert (purged.returncode, etc.exists()) == (0, False)
