"""Tests of what a collector needs to connect to a bus: the password and the trusted authorities."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lbdns.config import BusConfig
from lbdns.secrets.bus_access import BusAccess, read_bus_access
from lbdns_shared.bus_url import parse_bus_url
from lbdns_shared.errors import ConfigError
from lbdns_shared.nkey import Nkey
from lbdns_shared.nkey_format import user_seed_text
from tests.certificates import self_signed

SERVERS = (parse_bus_url("nats://collector@10.0.0.5"),)
NKEY = Nkey(bytes(range(32)))


def secret(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "bus.password"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_without_files() -> None:
    assert read_bus_access(BusConfig(SERVERS)) == (BusAccess(SERVERS), [])
    assert BusAccess(SERVERS).tls_context().check_hostname


def test_with_files(tmp_path: Path) -> None:
    certificate, _ = self_signed(tmp_path)
    access, warnings = read_bus_access(BusConfig(SERVERS, secret(tmp_path, "word\n"), certificate))
    assert (access.password, access.authorities, warnings) == ("word", certificate.read_text(), [])
    assert len(access.tls_context().get_ca_certs()) <= 1, "no authority of the system is trusted"
    assert "word" not in repr(access)


def test_other_users_can_read_the_password(tmp_path: Path) -> None:
    _, [warning] = read_bus_access(BusConfig(SERVERS, secret(tmp_path, "word", 0o644)))
    assert "lets other users read it" in warning


def test_an_nkey(tmp_path: Path) -> None:
    path = secret(tmp_path, f"{user_seed_text(NKEY.seed)}\n")
    access, warnings = read_bus_access(BusConfig(SERVERS, nkey_file=path))
    assert (access.nkey, access.password, warnings) == (NKEY, "", [])
    path.chmod(0o640)
    _, [warning] = read_bus_access(BusConfig(SERVERS, nkey_file=path))
    assert "[bus] nkey_file: mode 0640 lets other users read it" in warning
    path.write_text(NKEY.public_key)
    with pytest.raises(ConfigError, match=r"bus\.password: \[bus\] nkey_file: the key is a public key"):
        read_bus_access(BusConfig(SERVERS, nkey_file=path))


def test_an_nkey_needs_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    with pytest.raises(ConfigError, match=r"the package cryptography; run pip install 'lbdns\[nkeys\]'"):
        read_bus_access(BusConfig(SERVERS, nkey_file=secret(tmp_path, user_seed_text(NKEY.seed))))


@pytest.mark.parametrize("text", ["", "one\ntwo\n"])
def test_not_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="must contain one line with a password"):
        read_bus_access(BusConfig(SERVERS, secret(tmp_path, text)))


def test_unusable_authorities(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[bus\] tls_ca: cannot read the file: No such file"):
        read_bus_access(BusConfig(SERVERS, None, tmp_path / "none"))
    path = tmp_path / "empty"
    for content in (b"", b"text", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="contains no certificate"):
            read_bus_access(BusConfig(SERVERS, None, path))
