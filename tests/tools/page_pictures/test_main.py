"""Tests of the command that takes pictures of the live page."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from lbdns_tools.page_pictures.__main__ import MEMBERS, SCHEMES, WIDTHS, Picture, Taken, main, make_parser, summarize
from lbdns_tools.page_pictures.pictured_farm import STATES
from tests.needs import needs


def test_the_defaults_are_all_pictures() -> None:
    options = make_parser().parse_args(["--out", "pictures"])
    assert options.state == list(STATES)
    assert options.members == list(MEMBERS)
    assert options.width == list(WIDTHS)
    assert options.scheme == list(SCHEMES)


def test_file_names_tell_what_a_picture_shows() -> None:
    assert Picture("dead", 30, 390, "dark").file_name == "dead-30-390-dark.png"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--members", "0"], "must be a number of members from 1 to 5000, not '0'"),
        (["--members", "many"], "must be a number of members from 1 to 5000, not 'many'"),
        (["--width", "100"], "must be a width from 200 to 8000 CSS pixels, not '100'"),
        (["--settle", "-1"], "must be a number of seconds from 0 to 3600, not '-1'"),
        (["--settle", "nan"], "must be a number of seconds from 0 to 3600, not 'nan'"),
        (["--state", "burning"], "invalid choice: 'burning'"),
    ],
)
def test_invalid_options(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main([*options, "--out", "pictures"])
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_a_directory_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["--out", str(tmp_path / "file" / "pictures")]) == 1
    assert f"--out {tmp_path}/file/pictures: Not a directory" in capsys.readouterr().err


def test_a_file_of_axe_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--axe", str(tmp_path / "axe.js"), "--out", str(tmp_path)]) == 1
    assert f"--axe {tmp_path}/axe.js: No such file or directory; name a file" in capsys.readouterr().err


def test_the_summary_lists_each_fault_once() -> None:
    wide, narrow = Picture("dead", 3, 1400, "light"), Picture("dead", 3, 320, "light")
    taken = [Taken(wide, 0.5, ["faint"]), Taken(narrow, 1.5, ["wider", "faint"]), Taken(narrow, 0.7, [])]
    assert list(summarize(taken)) == [
        "   2 x faint (first in dead-3-1400-light.png)",
        "   1 x wider (first in dead-3-320-light.png)",
        "3 screenshots, 2 different faults; the page was complete after 0.70 s (median), 1.50 s (longest)",
    ]


@needs(programs=("chromium",))
def test_a_picture_is_as_wide_as_the_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--state", "dead", "--members", "3", "--width", "390", "--scheme", "dark", "--settle", "0"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    image = (tmp_path / "dead-3-390-dark.png").read_bytes()
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", image[16:24])
    assert width == 390
    assert height > 1500
    assert "1 screenshots, 0 different faults; the page was complete after " in capsys.readouterr().out
