"""Tests of the format number of the state directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lbdns.process.state_format import FILE_NAME, FORMAT, check_state_format, record_state_format
from lbdns_shared import __version__
from lbdns_shared.errors import ConfigError


def test_a_recorded_format_is_accepted(tmp_path: Path) -> None:
    record_state_format(tmp_path)
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {"format": FORMAT, "program": __version__}
    check_state_format(tmp_path)
    before = (tmp_path / FILE_NAME).stat()
    record_state_format(tmp_path)
    assert (tmp_path / FILE_NAME).stat().st_ino == before.st_ino, "an unchanged file is not rewritten"


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    text = json.dumps({"format": FORMAT + 1, "program": "9.8.7"})
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(ConfigError) as error:
        check_state_format(tmp_path)
    assert str(error.value) == (
        f"{tmp_path / FILE_NAME}: lbdns 9.8.7 has written the files in {tmp_path} in format {FORMAT + 1}, but lbdns "
        f"{__version__} reads formats up to {FORMAT}. Install lbdns 9.8.7 again, or move the files elsewhere to start "
        "without overrides, joined members or history"
    )
    assert (tmp_path / FILE_NAME).read_text() == text


@pytest.mark.parametrize(
    "content", ["", "1", "[]", "{}", '{"format": 99}', '{"format": "99", "program": ""}', "[" * 100_000, "\0"]
)
def test_a_damaged_file_does_not_keep_the_server_from_starting(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    check_state_format(tmp_path)
    record_state_format(tmp_path)
    assert json.loads((tmp_path / FILE_NAME).read_text())["format"] == FORMAT


def test_an_older_format_is_raised(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"format": 0, "program": "0.0.1"}')
    check_state_format(tmp_path)
    record_state_format(tmp_path)
    assert json.loads((tmp_path / FILE_NAME).read_text())["format"] == FORMAT


def test_a_newer_format_is_not_lowered(tmp_path: Path) -> None:
    text = json.dumps({"format": FORMAT + 1, "program": "9.8.7"})
    (tmp_path / FILE_NAME).write_text(text)
    record_state_format(tmp_path)
    assert (tmp_path / FILE_NAME).read_text() == text


def test_a_missing_directory_is_not_created(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    check_state_format(folder)
    record_state_format(folder)
    assert not folder.exists()
