from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lbdns_agent.signing_key import load_signing_key, only_host
from lbdns_shared.errors import KeyFileError
from lbdns_shared.keys import agent_line, new_master_key

MASTER, OLD = new_master_key(), new_master_key()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "report.key"
    path.touch(mode=0o600)
    return path


def test_without_a_file_reports_are_unsigned() -> None:
    assert load_signing_key(None, "gandalf") is None


def test_an_agent_line_for_this_host(path: Path) -> None:
    key = MASTER.agent_key("gandalf")
    path.write_text(f"{agent_line(OLD.agent_key('frodo'))}\n{agent_line(key)}\n")
    assert load_signing_key(path, "gandalf") == key


def test_a_master_line_derives_the_key_of_its_host_and_the_first_is_used(path: Path) -> None:
    path.write_text(f"{MASTER.line()}\n{OLD.line()}\n")
    assert load_signing_key(path, "gandalf") == MASTER.agent_key("gandalf")


def test_a_file_without_a_key_for_this_host(path: Path) -> None:
    path.write_text("".join(agent_line(MASTER.agent_key(host)) + "\n" for host in ("frodo", "bilbo")))
    with pytest.raises(KeyFileError) as raised:
        load_signing_key(path, "gandalf")
    text = str(raised.value)
    assert f"{path}: the key file contains no key for 'gandalf', only for bilbo, frodo" in text
    assert "--name" in text
    assert "lbdns keygen --agent gandalf" in text
    assert raised.value.exit_status == 2


def test_a_file_that_others_can_read_is_used_with_one_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text(MASTER.line())
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert load_signing_key(path, "gandalf") is not None
    assert len(caplog.messages) == 1
    assert "chmod 600" in caplog.messages[0]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="cannot read the key file: No such file"):
        load_signing_key(tmp_path / "none", "gandalf")


@pytest.mark.parametrize(
    ("lines", "host"),
    [
        ([agent_line(MASTER.agent_key("bilbo"))], "bilbo"),
        ([agent_line(MASTER.agent_key("bilbo")), agent_line(OLD.agent_key("bilbo"))], "bilbo"),
        ([agent_line(MASTER.agent_key("bilbo")), agent_line(MASTER.agent_key("frodo"))], None),
        ([agent_line(MASTER.agent_key("bilbo")), MASTER.line()], None),
        ([MASTER.line()], None),
        (["no key"], None),
    ],
)
def test_the_only_host_of_a_key_file(path: Path, lines: list[str], host: str | None) -> None:
    path.write_text("\n".join(lines))
    assert only_host(path) == host


def test_no_key_file_names_no_host(tmp_path: Path) -> None:
    assert only_host(None) is None
    assert only_host(tmp_path / "none") is None
