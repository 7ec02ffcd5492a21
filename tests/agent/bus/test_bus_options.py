"""Tests of the file with the password for a bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_agent.bus.bus_options import read_password
from lbdns_shared.errors import ConfigError


def test_a_password(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("a word\n")
    path.chmod(0o600)
    assert read_password(path) == ("a word", [])
    path.chmod(0o644)
    password, [warning] = read_password(path)
    assert password == "a word"
    assert "lets other users read it" in warning


def test_no_file() -> None:
    assert read_password(None) == ("", [])


@pytest.mark.parametrize("text", ["", "\n", "one\ntwo\n"])
def test_not_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "password"
    path.write_text(text)
    with pytest.raises(ConfigError, match="must contain one line"):
        read_password(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the password file: No such file"):
        read_password(tmp_path / "none")
