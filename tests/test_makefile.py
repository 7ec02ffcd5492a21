"""Tests of the Makefile's messages to users whose machine lacks a requirement."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def make(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL")}
    if path:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    return subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT), *words],
        capture_output=True, text=True, check=False, timeout=60, env=environment,
    )  # fmt: skip


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_help_lists_every_target_for_people() -> None:
    result = make("help")
    assert result.returncode == 0
    for target in ("demo", "test", "lint", "format", "venv", "lock", "deps-debian", "dist", "packages", "clean"):
        assert f"make {target} " in result.stdout


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    result = make("check-python", f"PYTHON={tmp_path}/python3")
    assert result.returncode == 2
    assert f"{tmp_path}/python3 not found; install Python 3.11 or newer" in result.stderr


def test_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = script(tmp_path, "python3", 'case $1 in --version) echo "Python 3.9.2";; *) exit 1;; esac')
    result = make("check-python", f"PYTHON={old}")
    assert result.returncode == 2
    assert "Python 3.9.2 is too old: lbdns needs 3.11 or newer" in result.stderr


def test_this_python_is_fine() -> None:
    assert make("check-python").returncode == 0


@pytest.mark.parametrize("apache", ["lacking", "there"])
def test_debian_packages_need_root_only_where_something_lacks(tmp_path: Path, apache: str) -> None:
    script(tmp_path, "dpkg-query", f'[ "$4 {apache}" = "apache2 lacking" ] || echo installed')
    script(tmp_path, "id", "echo 1000")
    script(tmp_path, "apt-get", "echo must not be called >&2; exit 9")
    result = make("deps-debian", path=tmp_path)
    if apache == "there":
        assert (result.returncode, result.stdout) == (0, "lbdns: all Debian packages for the tests are installed\n")
    else:
        assert result.returncode == 2
        assert "installing apache2 needs root: sudo make deps-debian" in result.stderr


@pytest.mark.parametrize("systemd", [True, False])
def test_an_apache_that_was_installed_just_now_is_stopped(tmp_path: Path, systemd: bool) -> None:
    """Debian starts services when it installs them, but the port must remain free for other programs."""
    log = tmp_path / "log"
    script(tmp_path, "dpkg-query", '[ "$4" = apache2 ] || echo installed')
    script(tmp_path, "id", "echo 0")
    for name in ("apt-get", "service", "systemctl"):
        script(tmp_path, name, f'echo {name} "$@" >> {log}')
    folder = tmp_path / "systemd"
    if systemd:
        folder.mkdir()
    result = make("deps-debian", f"SYSTEMD={folder}", path=tmp_path)
    assert result.returncode == 0, result.stderr
    calls = log.read_text().splitlines()
    assert calls[0].startswith("apt-get update")
    assert calls[1].startswith("apt-get install")
    assert calls[1].endswith(" apache2")
    assert calls[2:] == (["systemctl disable --quiet --now apache2"] if systemd else ["service apache2 stop"])


def test_the_locks_name_no_index() -> None:
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-packaging.lock"):
        text = (ROOT / name).read_text()
        assert "://" not in text
        assert "--hash=sha256:" in text
        assert "\nsetuptools==" in text


def test_the_dev_lock_has_what_the_lock_has() -> None:
    pins = [
        {line.split()[0] for line in (ROOT / name).read_text().splitlines() if "==" in line and line[0].isalnum()}
        for name in ("requirements.lock", "requirements-dev.lock")
    ]
    assert pins[0] < pins[1]
