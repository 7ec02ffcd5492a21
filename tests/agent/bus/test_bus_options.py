"""Tests of the files with the password and the nkey for a bus."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lbdns_agent.bus.bus_options import BusOptions, BusSecrets, read_password, read_secrets
from lbdns_shared.errors import ConfigError
from lbdns_shared.nkey import Nkey
from lbdns_shared.nkey_format import user_seed_text


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


def seed_file(folder: Path) -> Path:
    path = folder / "gandalf.nk"
    path.write_text(user_seed_text(bytes(32)))
    path.chmod(0o604)
    return path


def test_an_nkey(tmp_path: Path) -> None:
    assert read_secrets(BusOptions()) == (BusSecrets(), [])
    secrets, [warning] = read_secrets(BusOptions(nkey_file=seed_file(tmp_path)))
    assert secrets == BusSecrets("", Nkey(bytes(32)))
    assert "nkey file: mode 0604 lets other users read it" in warning


def test_an_nkey_needs_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    with pytest.raises(ConfigError, match=r"cryptography; run pip install 'lbdns-agent\[nkeys\]', or install"):
        read_secrets(BusOptions(nkey_file=seed_file(tmp_path)))
