"""Tests of secrets that the service manager passes to the program: they replace the files that only root can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.config import load_config
from lbdns.config.service_credentials import CREDENTIALS, ServiceCredentials
from lbdns_shared.keys import new_master_key
from tests.server.running import serving, write_config


def credentials_in(folder: Path | str) -> ServiceCredentials:
    found = ServiceCredentials()
    found.use({"CREDENTIALS_DIRECTORY": str(folder)})
    return found


def test_the_credential_of_that_folder_and_file_is_taken(tmp_path: Path) -> None:
    path = Path("/etc/lbdns/keys/report.key")
    assert credentials_in(tmp_path).copy_or(path) == path
    (tmp_path / "report.key").write_text("of another folder")
    assert credentials_in(tmp_path).copy_or(path) == path
    (tmp_path / "keys_report.key").write_text("its own")
    assert credentials_in(tmp_path).copy_or(path) == tmp_path / "keys_report.key"
    assert credentials_in("").copy_or(path) == path
    assert ServiceCredentials().copy_or(path) == path


def test_a_relative_path_has_a_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lbdns").mkdir()
    monkeypatch.chdir(tmp_path / "lbdns")
    (tmp_path / "lbdns_report.key").touch()
    assert credentials_in(tmp_path).copy_or(Path("report.key")) == tmp_path / "lbdns_report.key"


def test_every_file_of_secrets_may_be_a_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    names = ["report", "cookies", "password", "token", "steer", "cert", "tls", "tsig"]
    for name in names:
        (credentials / f"keys_{name}").write_text("c2VjcmV0c2VjcmV0c2VjcmV0")
    monkeypatch.setattr(CREDENTIALS, "_folder", credentials)
    path = write_config(tmp_path)
    text = path.read_text().replace("[collector]", '[collector]\nkey_file = "keys/report"')
    web = 'user = "u"\npassword_file = "keys/password"\ntoken_file = "keys/token"\nsteer = true\n'
    web += 'steer_token_file = "keys/steer"\ntls_cert = "keys/cert"\ntls_key = "keys/tls"'
    text = text.replace("[web]", f"[web]\n{web}")
    path.write_text(
        f'{text}[cookies]\nsecret_file = "keys/cookies"\n[[key]]\nname = "k"\nsecret_file = "keys/tsig"\n'
        '[query_log]\nfile = "keys/report"\n'
    )
    config = load_config(path)
    assert sorted(file.name for file in config.files if file.parent == credentials) == sorted(
        f"keys_{name}" for name in names
    )
    assert config.query_log.file == tmp_path / "keys/report", "a file that lbdns writes is none"


async def test_a_server_reads_its_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").mkdir(mode=0o700)
    credential = tmp_path / "credentials" / "keys_report.key"
    credential.touch(0o600)
    credential.write_text(new_master_key().line())
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credential.parent))
    path = write_config(tmp_path)
    path.write_text(path.read_text().replace("[collector]", '[collector]\nkey_file = "keys/report.key"'))
    async with serving(path) as server:
        assert server.logged("reports are accepted if their tag matches a key in the key file")
