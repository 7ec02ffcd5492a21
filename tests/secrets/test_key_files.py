"""Tests of report keys and of the secrets for DNS cookies: valid files, errors in files, and generated secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.secrets.key_files import new_cookie_secret, parse_cookie_secrets, read_cookie_secrets, read_report_keys
from lbdns_shared.errors import ConfigError, KeyFileError
from lbdns_shared.keys import agent_line
from tests.collector.collector_fixtures import KEY, OTHER_KEY, write_key

ONE = bytes.fromhex("e5e973e5a6b2a43f48e7dc849e37bfcf")
TWO = bytes.fromhex("445536bcd2513298075a5d379663c962")


def secret_file(folder: Path, text: str = ONE.hex() + "\n", mode: int = 0o600) -> Path:
    path = folder / "cookie.secret"
    path.write_text(text)
    path.chmod(mode)
    return path


class TestParsing:
    @pytest.mark.parametrize(
        "text",
        [
            f"{ONE.hex()}\n{TWO.hex()}\n",
            f"# this month\n\n  {ONE.hex().upper()}  # made on Monday\n#\n{TWO.hex()}",
            f"{ONE.hex()}\r\n\t{TWO.hex()}\r\n",
        ],
    )
    def test_one_secret_a_line_in_order(self, text: str) -> None:
        assert parse_cookie_secrets(text, "f") == (ONE, TWO)

    @pytest.mark.parametrize(
        "line", [ONE.hex()[:-1], ONE.hex() + "0", ONE.hex()[:-1] + "g", "0x" + ONE.hex(), f"{ONE.hex()} {TWO.hex()}"]
    )
    def test_an_invalid_line_is_named_and_not_quoted(self, line: str) -> None:
        with pytest.raises(ConfigError) as caught:
            parse_cookie_secrets(f"{TWO.hex()}\n{line}\n\nalso bad\n", "cookie.secret")
        assert caught.value.exit_status == 2
        assert [finding.split(" must be ")[0] for finding in caught.value.findings] == [
            "cookie.secret:2: [cookies] secret_file:",
            "cookie.secret:4: [cookies] secret_file:",
        ]
        assert "openssl rand -hex 16" in str(caught.value)
        assert line[:8] not in str(caught.value)

    @pytest.mark.parametrize("text", ["", "\n\n", "# " + ONE.hex()])
    def test_no_secret_at_all(self, text: str) -> None:
        with pytest.raises(ConfigError, match=r"^f: \[cookies\] secret_file: the file contains no secret; run"):
            parse_cookie_secrets(text, "f")

    @given(st.text())
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            found = parse_cookie_secrets(text, "f")
        except ConfigError:
            return
        assert found
        assert {len(secret) for secret in found} == {16}


class TestReading:
    @pytest.mark.parametrize("mode", [0o600, 0o400])
    def test_a_private_file_gives_no_warning(self, tmp_path: Path, mode: int) -> None:
        assert read_cookie_secrets(secret_file(tmp_path, mode=mode)) == ((ONE,), [])

    @pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
    def test_a_file_others_can_read_gives_one(self, tmp_path: Path, mode: int) -> None:
        path = secret_file(tmp_path, mode=mode)
        warning = f"{path}: [cookies] secret_file: mode {mode:04o} lets other users read it; run 'chmod 600 {path}'"
        assert read_cookie_secrets(path) == ((ONE,), [warning])

    def test_the_path_and_the_line_of_a_mistake(self, tmp_path: Path) -> None:
        path = secret_file(tmp_path, f"{ONE.hex()}\nsecret\n")
        with pytest.raises(ConfigError) as caught:
            read_cookie_secrets(path)
        assert str(caught.value).startswith(f"{path}:2: [cookies] secret_file: must be 32 hex digits")

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"nope: cannot read the \[cookies\] secret_file: No such file"):
            read_cookie_secrets(tmp_path / "nope")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"cannot read the .*: Is a directory"):
            read_cookie_secrets(tmp_path)

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        path = tmp_path / "cookie.secret"
        path.write_bytes(b"\xff\xfe" * 16)
        with pytest.raises(ConfigError, match="is not a text file"):
            read_cookie_secrets(path)


def test_made_up_ones_are_all_different() -> None:
    made = {new_cookie_secret() for _ in range(100)}
    assert len(made) == 100
    assert {len(secret) for secret in made} == {16}


class TestReportKeys:
    def test_all_master_keys_are_read(self, tmp_path: Path) -> None:
        path = write_key(tmp_path, KEY, OTHER_KEY)
        assert read_report_keys(path) == ((KEY, OTHER_KEY), [])
        path.chmod(0o644)
        keys, (warning,) = read_report_keys(path)
        assert keys == (KEY, OTHER_KEY)
        assert "lets other users read it" in warning

    def test_a_file_without_master_key_is_an_error(self, tmp_path: Path) -> None:
        path = write_key(tmp_path)
        path.write_text(agent_line(KEY.agent_key("gandalf")) + "\n")
        with pytest.raises(ConfigError, match=r"report\.key: the key file contains no master key.*lbdns keygen"):
            read_report_keys(path)

    def test_a_file_that_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(KeyFileError, match=r"nothing\.key: cannot read the key file"):
            read_report_keys(tmp_path / "nothing.key")
