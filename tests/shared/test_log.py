"""Tests of log lines on standard error: one line per event, safe characters, and a limited rate."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from lbdns_shared import log


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, errors = root.handlers[:], root.level, sys.stderr
    yield
    root.handlers[:] = handlers
    sys.stderr = errors
    root.setLevel(level)


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    log.finish()
    while any(isinstance(each, log._Handler) and each._writer._has_work for each in logging.getLogger().handlers):
        log.finish()  # this machine is slow
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    logging.getLogger("lbdns.server").info("zone %s read", "hobbit")
    (line,) = written(capsys)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ INFO    lbdns\.server: zone hobbit read", line)


def test_messages_of_python_itself_pass_through_the_queue(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    print("printed\nlines", file=sys.stderr)
    logging.getLogger("x").info("%d", "no number")
    print("no end of the line", end="", file=sys.stderr, flush=True)
    lines = written(capsys)
    assert lines[:2] == ["printed", "lines"]
    assert "TypeError" in "\n".join(lines)
    assert lines[-1] == "no end of the line"


def test_a_second_set_up_replaces_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    logging.getLogger("x").info("first")
    log.set_up("json")
    print("second", file=sys.stderr)
    lines = written(capsys)
    assert len(lines) == 2
    assert lines[1] == "second"


def test_lost_lines_are_reported_in_the_format_of_the_log() -> None:
    for log_format in log.FORMATS:
        log.set_up(log_format)
        (handler,) = logging.getLogger().handlers
        assert isinstance(handler, log._Handler)
        line = handler._describe_loss(7, "No space left on device")
        if log_format == "json":
            found = json.loads(line)
            assert (found["level"], found["logger"], found["lost"]) == ("warning", "lbdns.log", 7)
            line = found["message"]
        assert line.endswith("7 log lines were lost: No space left on device")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up("json")
    logging.getLogger("lbdns.server").warning("zone %s\n\x1b[2J", "hobbit")
    (line,) = written(capsys)
    assert "\x1b" not in line
    record = json.loads(line)
    assert isinstance(record.pop("time"), float)
    assert record == {"level": "warning", "logger": "lbdns.server", "message": "zone hobbit\n\x1b[2J"}


@pytest.mark.parametrize(("level", "expected"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
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


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock of the handlers that ``set_up`` creates."""
    clock = Clock()
    monkeypatch.setattr(log._Handler.__init__, "__defaults__", (clock,))
    return clock


class Event(NamedTuple):
    """The attributes of a server's event that the formatter and the suppressor read."""

    kind: str
    pool: str
    member: str


EVENT_KINDS = ("state", "fail_open", "override", "reload", "alarm")


def event(kind: str = "state", pool: str = "", member: str = "", text: str = "it happened") -> None:
    """Log an event in the same way as the server's event log."""
    logging.getLogger("lbdns.server").warning("%s", text, extra={"event": Event(kind, pool, member)})


def test_what_comes_often_is_held_back_and_counted(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    log.set_up()
    for number in range(1000):
        logging.getLogger("x").warning("bad thing %d", number)
    assert len(written(capsys)) == 10
    clock.now += log.WINDOW
    logging.getLogger("x").info("something else")
    told, other = written(capsys)
    assert "990 more like this in the last 60 s; the last one: bad thing 999" in told
    assert "WARNING" in told
    assert other.endswith("something else")
    logging.getLogger("x").warning("bad thing %d", 0)
    assert [line[-11:] for line in written(capsys)] == ["bad thing 0"], "they begin anew"


def test_nothing_is_held_back_silently_at_the_end(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    log.set_up("json")
    for _ in range(12):
        event(pool="web", member="frodo")
    logging.getLogger().handlers[0].close()
    assert json.loads(written(capsys)[-1]) == {
        "time": pytest.approx(time.time(), abs=10), "level": "warning", "logger": "lbdns.server", "held": 2,
        "message": "2 more like this in the last 60 s; the last one: it happened",
        "kind": "state", "pool": "web", "member": "frodo",
    }  # fmt: skip


def test_it_is_told_although_nothing_more_comes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "WINDOW", 1.0)  # s: even a busy machine writes 15 lines in this time
    log.set_up()
    for _ in range(15):
        logging.getLogger("x").error("again")
    lines = written(capsys)
    end = time.monotonic() + 30
    while len(lines) < 11 and time.monotonic() < end:
        time.sleep(0.01)
        lines += written(capsys)
    assert "5 more like this" in lines[10]


def fail(text: str) -> None:
    raise ValueError(text)


def test_one_traceback_a_minute_whatever_the_messages(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    """A client that triggers an internal error again and again must not fill the log."""
    log.set_up("json")
    for number in range(50):
        try:
            fail(f"inside {number}")
        except ValueError:
            logging.getLogger("x").exception(f"/path/{number}: failed")
    (line,) = written(capsys)
    assert "inside 0" in json.loads(line)["exception"]
    clock.now += log.WINDOW
    logging.getLogger("x").info("something else")
    assert "49 more like this in the last 60 s; the last one: /path/49: failed" in written(capsys)[0]


def test_another_exception_or_place_has_its_own_traceback(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    log.set_up("json")
    for _ in range(2):
        for call in (lambda: fail("a"), lambda: int("a"), lambda: next(iter(()))):
            try:
                call()
            except (ValueError, StopIteration):
                logging.getLogger("x").exception("failed")
    logging.getLogger("x").error("no exception", exc_info=True)
    assert len(written(capsys)) == 4


def test_events_of_different_members_are_different(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    log.set_up()
    for number in range(60):
        event("state", "web", f"m{number % 3}")
    for kind in EVENT_KINDS:
        event(kind, "web", "m0")
    assert len(written(capsys)) == 30 + len(EVENT_KINDS) - 1


@pytest.mark.parametrize("events", [True, False])
def test_no_flood_makes_the_log_grow_without_bound(
    capsys: pytest.CaptureFixture[str], clock: Clock, events: bool
) -> None:
    """The number of logged lines is bounded even if all lines differ, and other kinds of lines are not suppressed."""
    log.set_up()
    handler = logging.getLogger().handlers[0]
    assert isinstance(handler, log._Handler)
    for number in range(20_000):
        if events:
            event("state", "web", f"m{number}")
        else:
            logging.getLogger("lbdns.server").warning(f"number {number}")
    logging.getLogger("lbdns").info("reload: done")
    lines = written(capsys)
    assert len(lines) == log.KIND_LIMIT + 1
    assert lines[-1].endswith("reload: done")
    assert len(handler._suppressor._similar) + len(handler._suppressor._kinds) < 300
    clock.now += log.WINDOW
    logging.getLogger("lbdns").info("reload: done")
    assert f"{20_000 - log.KIND_LIMIT} more of this kind in the last 60 s" in written(capsys)[0]
    assert len(handler._suppressor._similar) + len(handler._suppressor._kinds) == 2


def test_json_says_what_an_event_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up("json")
    event("state", "web", "frodo")
    event("reload")
    first, second = map(json.loads, written(capsys))
    assert (first["kind"], first["pool"], first["member"]) == ("state", "web", "frodo")
    assert second["kind"] == "reload"
    assert second.keys() == {"time", "level", "logger", "message", "kind"}


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make standard error look like a connection to the journal."""
    status = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")


@pytest.mark.usefixtures("journal")
def test_the_journal_gets_priorities_and_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up(level="debug")
    for level in log.LEVELS:
        getattr(logging.getLogger("x"), level)("event\nforged")
    logging.getLogger("x").critical("event")
    assert written(capsys) == [
        "<7>DEBUG   x: event\\nforged",
        "<6>INFO    x: event\\nforged",
        "<4>WARNING x: event\\nforged",
        "<3>ERROR   x: event\\nforged",
        "<2>CRITICAL x: event",
    ]


@pytest.mark.usefixtures("journal")
def test_each_line_of_a_traceback_has_its_priority(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    try:
        raise ValueError("inside")
    except ValueError:
        logging.getLogger("x").exception("failed")
    lines = written(capsys)
    assert len(lines) > 3
    assert all(line.startswith("<3>") for line in lines)


@pytest.mark.usefixtures("journal")
def test_json_in_the_journal(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up("json")
    logging.getLogger("x").info("event")
    (line,) = written(capsys)
    assert json.loads(line.removeprefix("<6>"))["message"] == "event"


def test_a_journal_that_is_another_s(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs inherit JOURNAL_STREAM even if their standard error is redirected elsewhere."""
    monkeypatch.setenv("JOURNAL_STREAM", "8:4711")
    log.set_up()
    logging.getLogger("x").info("event")
    assert written(capsys)[0].startswith("2")


def test_a_program_whose_standard_error_is_a_socket_of_the_journal() -> None:
    journal, theirs = socket.socketpair()
    with journal, theirs:
        status = os.fstat(theirs.fileno())
        environment = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        code = "import logging; from lbdns_shared import log; log.set_up(); logging.getLogger('x').warning('event')"
        subprocess.run([sys.executable, "-c", code], stderr=theirs.fileno(), env=environment, timeout=30, check=True)
        assert journal.recv(1000) == b"<4>WARNING x: event\n"


@pytest.mark.parametrize("finish", ["log.finish()", ""])
def test_a_verbose_interpreter_ends(finish: str) -> None:
    """``python -v`` writes to standard error while it ends, when no thread can be started any more."""
    code = f"from lbdns_shared import log; log.set_up(); import logging; logging.warning('last'); {finish}"
    command = [sys.executable, "-v", "-c", code]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True, timeout=120)
    if finish:
        assert "root: last" in done.stderr
        assert "# cleanup" in done.stderr


def test_python_writes_to_standard_error_itself_after_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stderr
    log.set_up()
    assert sys.stderr is not before
    log.finish()
    assert sys.stderr is before
    print("a traceback", file=sys.stderr)
    assert capsys.readouterr().err == "a traceback\n"
