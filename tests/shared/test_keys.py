"""Tests of key files, and of keys derived from other keys."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.errors import KeyFileError
from lbdns_shared.keys import KEY_LENGTH, KeyFile, MasterKey, agent_line, new_master_key, parse_key_file, read_key_file

SECRET = bytes(range(32))
OTHER = bytes(range(1, 33))
MASTER_LINE = "master " + base64.b64encode(SECRET).decode()
secrets = st.binary(min_size=KEY_LENGTH, max_size=KEY_LENGTH)


class TestDerivation:
    def test_the_key_id_is_the_contract_s(self) -> None:
        assert MasterKey(SECRET).key_id == hashlib.sha256(SECRET).digest()[:4]

    def test_the_agent_key_is_the_contract_s(self) -> None:
        key = MasterKey(SECRET).agent_key("gandalf")
        assert key.secret == hmac.new(SECRET, b"lbdns report v1 gandalf", "sha256").digest()
        assert (key.host, key.key_id) == ("gandalf", MasterKey(SECRET).key_id)

    def test_hosts_have_different_keys(self) -> None:
        assert MasterKey(SECRET).agent_key("gandalf").secret != MasterKey(SECRET).agent_key("frodo").secret

    def test_new_keys_are_new(self) -> None:
        assert len({new_master_key().secret for _ in range(20)}) == 20
        assert len(new_master_key().secret) == 32

    def test_secrets_are_not_shown(self) -> None:
        assert repr(SECRET) not in repr(MasterKey(SECRET))
        assert SECRET.hex() not in repr(parse_key_file(MASTER_LINE, "x"))


class TestLines:
    @given(secrets)
    def test_a_master_line_is_read_back(self, secret: bytes) -> None:
        assert parse_key_file(MasterKey(secret).line(), "x") == KeyFile((MasterKey(secret),), ())

    @given(secrets, st.from_regex(r"[a-z0-9_][a-z0-9_-]{0,20}(\.[a-z0-9]{1,9})?", fullmatch=True))
    def test_an_agent_line_is_read_back(self, secret: bytes, host: str) -> None:
        key = MasterKey(secret).agent_key(host)
        assert parse_key_file(agent_line(key), "x") == KeyFile((), (key,))

    def test_comments_and_empty_lines_are_passed_over(self) -> None:
        text = f"# keys of the farm\n\n  {MASTER_LINE}  # since spring\r\n\t\n"
        assert parse_key_file(text, "x").masters == (MasterKey(SECRET),)

    def test_several_lines_keep_their_order(self) -> None:
        text = f"{MasterKey(OTHER).line()}\n{MASTER_LINE}\n"
        assert parse_key_file(text, "x").masters == (MasterKey(OTHER), MasterKey(SECRET))

    def test_a_host_name_s_case_makes_no_difference(self) -> None:
        line = agent_line(MasterKey(SECRET).agent_key("gandalf")).replace("gandalf", "Gandalf")
        assert parse_key_file(line, "x").agents[0].host == "gandalf"


class TestKeyToSend:
    def test_own_line_before_a_derived_one(self) -> None:
        own = MasterKey(OTHER).agent_key("gandalf")
        keys = parse_key_file(f"{MASTER_LINE}\n{agent_line(own)}", "x")
        assert keys.key_to_send("gandalf") == own
        assert keys.key_to_send("frodo") == MasterKey(SECRET).agent_key("frodo")

    def test_the_first_of_several(self) -> None:
        first, second = (MasterKey(s).agent_key("gandalf") for s in (OTHER, SECRET))
        assert parse_key_file(f"{agent_line(first)}\n{agent_line(second)}", "x").key_to_send("gandalf") == first
        masters = parse_key_file(f"{MasterKey(OTHER).line()}\n{MASTER_LINE}", "x")
        assert masters.key_to_send("gandalf") == first

    def test_nobody_else_s(self) -> None:
        assert parse_key_file(agent_line(MasterKey(SECRET).agent_key("frodo")), "x").key_to_send("gandalf") is None


GOOD64 = base64.b64encode(SECRET).decode()


class TestBadFiles:
    @pytest.mark.parametrize(
        ("line", "about"),
        [
            ("master", "the line must be"),
            ("master a b", "the line must be"),
            (f"Master {GOOD64}", "the line must be"),
            (f"agent gandalf {GOOD64}", "the line must be"),
            ("key abc", "the line must be"),
            ("master not*base64", "base64"),
            (f"master {GOOD64[:-1]}", "base64"),
            ("master QUJD", "3 bytes, not 32"),
            (f"agent gandalf 0123456 {GOOD64}", "8 hex digits"),
            (f"agent gandalf 0123456x {GOOD64}", "8 hex digits"),
            (f"agent -gandalf 01234567 {GOOD64}", "host name"),
            (f"agent gandälf 01234567 {GOOD64}", "host name"),
            ("agent gandalf 01234567 QUJD", "3 bytes"),
        ],
    )
    def test_a_bad_line_is_named_with_its_number(self, line: str, about: str) -> None:
        with pytest.raises(KeyFileError, match=about) as caught:
            parse_key_file(f"{MASTER_LINE}\n{line}\n", "farm.key")
        assert str(caught.value).startswith("farm.key:2: key: ")

    def test_all_bad_lines_at_once(self) -> None:
        with pytest.raises(KeyFileError) as caught:
            parse_key_file("a\nb\nc", "farm.key")
        assert [finding.split(":")[1] for finding in caught.value.findings] == ["1", "2", "3"]

    @pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n"])
    def test_a_file_without_a_key(self, text: str) -> None:
        with pytest.raises(KeyFileError, match="contains no key"):
            parse_key_file(text, "farm.key")

    def test_no_secret_in_a_message(self) -> None:
        with pytest.raises(KeyFileError) as caught:
            parse_key_file(f"master {GOOD64}A\nagent gandalf zz {GOOD64}\nmaaster {GOOD64}\n", "farm.key")
        assert GOOD64[:8] not in str(caught.value)

    @given(st.text(max_size=60))
    def test_any_text_is_a_key_file_or_an_error(self, text: str) -> None:
        try:
            keys = parse_key_file(text, "x")
        except KeyFileError:
            return
        assert keys.masters or keys.agents


class TestReading:
    def test_a_private_file_gives_no_warning(self, tmp_path: Path) -> None:
        assert read_key_file(key_file(tmp_path, 0o600)) == (KeyFile((MasterKey(SECRET),), ()), [])
        assert read_key_file(key_file(tmp_path, 0o400))[1] == []

    @pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
    def test_a_file_others_can_read_gives_one(self, tmp_path: Path, mode: int) -> None:
        (warning,) = read_key_file(key_file(tmp_path, mode))[1]
        assert f"{mode:04o}" in warning
        assert f"chmod 600 {tmp_path}/report.key" in warning

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(KeyFileError, match=r"nope\.key: cannot read the key file: No such file"):
            read_key_file(tmp_path / "nope.key")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(KeyFileError, match="cannot read the key file: Is a directory"):
            read_key_file(tmp_path)

    def test_bytes_that_are_no_text(self, tmp_path: Path) -> None:
        path = tmp_path / "report.key"
        path.write_bytes(b"master \xff\xfe")
        with pytest.raises(KeyFileError, match="is not a text file; check that this is a key file"):
            read_key_file(path)


def key_file(folder: Path, mode: int) -> Path:
    path = folder / "report.key"
    path.write_text(MASTER_LINE + "\n")
    path.chmod(mode)
    return path
