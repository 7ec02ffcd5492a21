"""One line an event on standard error, whatever is in it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest

from lbdns import log


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    logging.getLogger("lbdns.server").info("zone %s read", "hobbit")
    (line,) = written(capsys)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ INFO    lbdns\.server: zone hobbit read", line)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up("json")
    logging.getLogger("lbdns.server").warning("zone %s\n\x1b[2J", "hobbit")
    (line,) = written(capsys)
    assert "\x1b" not in line
    record = json.loads(line)
    assert isinstance(record.pop("time"), float)
    assert record == {"level": "warning", "logger": "lbdns.server", "message": "zone hobbit\n\x1b[2J"}


@pytest.mark.parametrize(
    ("level", "expected"),
    [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)],
)
def test_levels(capsys: pytest.CaptureFixture[str], level: str, expected: int) -> None:
    log.set_up("text", level)
    for name in log.LEVELS:
        getattr(logging.getLogger("x"), name)("event")
    assert len(written(capsys)) == expected


@pytest.mark.parametrize("forged", ["a\nb", "a\r\nb", "a\rb", "a\x1b[2Jb", "a\x0bb", "a\x85b", "a\u2028b", "a\x00b"])
def test_text_from_outside_forges_no_line_and_moves_no_cursor(capsys: pytest.CaptureFixture[str], forged: str) -> None:
    log.set_up()
    logging.getLogger("x").info("host %s", forged)
    (line,) = written(capsys)
    assert line.isprintable()
    assert "host a\\" in line
    assert line.endswith("b")


def test_letters_of_other_languages_stay(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    logging.getLogger("x").info("größer, \\n and a\ttab")
    (line,) = written(capsys)
    assert line.endswith("größer, \\n and a\\ttab")


@pytest.mark.parametrize("log_format", log.FORMATS)
def test_an_exception_s_message_can_t_forge_a_line_before_its_traceback(
    capsys: pytest.CaptureFixture[str], log_format: str
) -> None:
    log.set_up(log_format)
    try:
        raise ValueError("inside")
    except ValueError:
        logging.getLogger("x").exception("failed\nforged")
    lines = written(capsys)
    assert "forged" in lines[0]
    text = "\n".join(lines)
    assert "Traceback" in text
    assert "ValueError: inside" in text
    assert len(lines) == 1 or log_format == "text"
