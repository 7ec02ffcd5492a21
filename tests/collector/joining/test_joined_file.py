"""Tests of the file of joined members."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMember
from lbdns_collector.joining.joined_file import JoinedFile, joined_path, read_joined, write_joined
from tests.collector.joining.joining_farms import joinable

MEMBERS = NO_JOINED_MEMBERS.changed(
    put=[JoinedMember("web", "web-1", ("10.0.0.7",)), JoinedMember("web", "web-2", ("10.0.0.8", "2001:db8::8"))]
)


def test_written_members_are_read(tmp_path: Path) -> None:
    path = tmp_path / "state" / "joined.json"
    write_joined(path, MEMBERS)
    assert read_joined(path) == MEMBERS
    write_joined(path, NO_JOINED_MEMBERS)
    assert read_joined(path) == NO_JOINED_MEMBERS


def test_no_members_no_file(tmp_path: Path) -> None:
    write_joined(tmp_path / "joined.json", NO_JOINED_MEMBERS)
    assert list(tmp_path.iterdir()) == []
    assert read_joined(tmp_path / "joined.json") == NO_JOINED_MEMBERS


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"members": 5}', "[" * 100_000, '{"members": {}}', "\x00"])
def test_a_damaged_file_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    path = tmp_path / "joined.json"
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert read_joined(path) == NO_JOINED_MEMBERS
    assert "not a valid file of joined members; hosts join again" in caplog.text


def test_valid_members_of_a_damaged_file_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "joined.json"
    path.write_text('{"members": [{"pool": "web", "name": "web-1", "addresses": ["10.0.0.7"]}, {"pool": 5}]}')
    assert [member.name for member in read_joined(path).items] == ["web-1"]
    assert "not a valid joined member" in caplog.text


def test_an_unreadable_file_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "joined.json").mkdir()
    assert read_joined(tmp_path / "joined.json") == NO_JOINED_MEMBERS
    assert "cannot read the file" in caplog.text


async def test_a_failed_write_is_repeated_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, file = joinable(tmp_path).config, JoinedFile()
    members = NO_JOINED_MEMBERS.changed([JoinedMember("web", "web-1", ("10.0.0.7",))])
    config.server.state_dir.write_text("not a folder")
    await file.save(config, members)
    await file.save(config, members)
    assert len([message for message in caplog.messages if "cannot write the file" in message]) == 1
    config.server.state_dir.unlink()
    await file.save(config, members)
    assert read_joined(joined_path(config)) == members
