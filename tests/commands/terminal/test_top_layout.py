"""Tests of the lines that ``lbdns top`` displays for given data and a given view, without a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from lbdns.commands.terminal.sparklines import LETTERS
from lbdns.commands.terminal.top_data import KEPT, TopData
from lbdns.commands.terminal.top_layout import LEAST_HEIGHT, LEAST_WIDTH, Size, frame
from lbdns.commands.terminal.top_view import SORTS, View
from tests.commands.terminal.documents import event, member, override, pool, status

NORMAL = Size(80, 24)


def board_of(*documents: dict[str, Any], events: int = 0) -> TopData:
    """Return the data of ``lbdns top`` after it has received these documents, one per second."""
    board = TopData()
    for second, document in enumerate(documents or (status(),)):
        board.take_status(document, float(second))
        board.sample(float(second))
    for number in range(events):
        board.take_event(event(number, f"event {number} that has a long text" + " and more" * 10))
    return board


def drawn(board: TopData, view: View | None = None, size: Size = NORMAL, now: float = 0.0) -> list[str]:
    lines = [line.plain for line in frame(board, view or View(), size, now)]
    assert max(map(cell_len, lines)) <= size.width
    assert len(lines) <= size.height
    return lines


def many(count: int) -> dict[str, Any]:
    return status(pool(members=[member(f"m{i:03}", score=i, answers=i) for i in range(count)]))


@pytest.mark.parametrize("size", [NORMAL, Size(60, 10), Size(81, 11), Size(110, 30), Size(250, 80), Size(500, 12)])
@pytest.mark.parametrize("members", [0, 1, 3, 200])
@pytest.mark.parametrize("events", [0, 1, 30])
def test_every_size_is_filled_and_not_overrun(size: Size, members: int, events: int) -> None:
    board = board_of(many(members) if members else status(pool(members=[member("x")]) | {"members": []}), events=events)
    lines = drawn(board, size=size)
    assert len(lines) == size.height
    assert lines[-1].startswith("q quit")


def test_what_a_row_says() -> None:
    before = status(pool(members=[member("gandalf", answers=10), member("frodo", answers=5)]), queries=100)
    after = status(pool(members=[member("gandalf", answers=22), member("frodo", answers=5)]), queries=160)
    lines = drawn(board_of(before, after), now=3.5)
    assert lines[0].startswith("lbdns 1.2.3  up 1h1min  60.0 queries/s  1 worker")
    assert lines[1] == "  web in hobbit: 2 of 2 usable, 12.0 answers/s"
    row = next(line for line in lines if line.startswith("gandalf"))
    # Its age goes on: the status came 2.5 s ago
    assert row.split()[:8] == ["gandalf", "usable", "66", "2.9", "25%", "50%", "12.0", "58"]
    assert "█" in row


def test_who_is_not_usable_has_its_reason_instead_of_lines() -> None:
    members = [
        member("gandalf", "drained", reason="drained by root: new kernel", overrides=[override()]),
        member("frodo", "silent", reason="no report for 12 s"),
        member("bilbo", guard="ramp 40%"),
        member("sam", reason="weight 0.5 by root", overrides=[override("weight")]),
    ]
    lines = drawn(board_of(status(pool(members=members))))
    for name, said in (
        ("gandalf", "drained by root"),
        ("frodo", "no report for 12 s"),
        ("bilbo", "ramp 40%"),
        ("sam", "weight 0.5"),
    ):
        assert said in next(line for line in lines if line.startswith(name))


def test_a_member_that_is_needed_despite_an_alarm_says_so() -> None:
    needed = member("frodo", "alarm", reason="alarm: busy", guard="needed although it is in alarm (busy), for 12 s")
    members = [member("gandalf"), needed, member("sam", "drained", reason="drained by root")]
    lines = frame(board_of(status(pool(members=members))), View(), Size(140, 24), 0.0)
    row = next(line for line in lines if line.plain.startswith("frodo"))
    assert "needed although it is in alarm (busy), for 12 s" in row.plain
    assert any(span.style == "red" and "needed" in row.plain[span.start : span.end] for span in row.spans)
    assert lines[1].plain.endswith("1 of 3 usable, - answers/s; 1 failing but needed, 1 drained")


def test_names_and_reasons_from_outside_do_not_steer_the_terminal() -> None:
    members = [member("\x1b[2Jx", "alarm", reason="alarm: \x1b]0;title\x07")]
    board = board_of(status(pool("we\nb", members, zone="a\x1bb"), version="\x1b1"))
    board.take_event(event(1, "\x1b[31m"))
    board.trouble = "\x1bno"
    assert all(line.isprintable() for line in drawn(board))


def test_what_is_old_says_so() -> None:
    board = board_of(status(), status())
    assert "nothing new" not in drawn(board, now=5.0)[0]
    assert "no data for 9s" in drawn(board, now=10.0)[0]
    board.trouble = "http://x: the event stream was cut"
    assert "9s old: http://x: the event" in drawn(board, now=10.0)[0]
    board.take_status(status(), 11.0)
    assert board.trouble == ""
    assert drawn(TopData())[0] == "lbdns waiting for the server"


def test_what_is_wrong_stands_above() -> None:
    failing = {"on": True, "ok": False, "error": "disk full", "dropped": 3, "bytes": 9}
    lines = drawn(board_of(status(pool(fail_open=True, fail_open_reason="no member is usable"), history=failing)))
    assert "history: disk full" in lines[0]
    assert lines[1].endswith("FAIL OPEN: no member is usable")


def test_a_server_that_was_started_anew_counts_from_nothing() -> None:
    board = board_of(
        status(pool(members=[member("gandalf", answers=1000)]), queries=1000),
        status(pool(members=[member("gandalf", answers=3), member("new")]), queries=3),
        status(pool(members=[member("new")]), queries=4),
    )
    assert board.queries_per_s == 1.0
    assert set(board.series) == {("web", "new")}


def test_series_do_not_grow() -> None:
    board = board_of(*[status()] * (KEPT + 20))
    assert {len(series.score) for series in board.series.values()} == {KEPT}


def test_a_wide_screen_has_more_metrics() -> None:
    assert "queue" not in "".join(drawn(board_of()))
    assert "queue" in "".join(drawn(board_of(), size=Size(120, 24)))


def test_a_terminal_without_blocks_gets_ascii() -> None:
    lines = drawn(board_of(*[many(30)] * 3, events=5), size=Size(80, 24, LETTERS))
    assert all(line.isascii() for line in lines)


def test_a_small_terminal_says_what_it_needs() -> None:
    for size in (Size(LEAST_WIDTH - 1, 24), Size(80, LEAST_HEIGHT - 1)):
        assert drawn(board_of(), size=size)[0].startswith("screen too small: 60x10 is required")


def names(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if line.startswith("m") and not line.startswith("member")]


def pressed(view: View, board: TopData, *keys: str) -> list[str]:
    drawn(board, view)
    for key in keys:
        view.press(key, board)
    return drawn(board, view)


def test_scrolling() -> None:
    board, view = board_of(many(100)), View()
    first = names(drawn(board, view))
    assert first[0] == "m000"
    assert names(pressed(view, board, "down", "down"))[0] == "m002"
    assert names(pressed(view, board, "up", "up", "up"))[0] == "m000"
    assert names(pressed(view, board, "pagedown"))[0] == f"m{len(first):03}"
    assert names(pressed(view, board, "end"))[-1] == "m099"
    assert names(pressed(view, board, "pagedown", "down"))[-1] == "m099"
    assert "of 100, by configuration" in "".join(drawn(board, view))
    assert names(pressed(view, board, "home")) == first
    view.press("end", board)
    assert names(drawn(board_of(many(3)), view)) == ["m000", "m001", "m002"], "when there are fewer it goes back"


def test_sorting() -> None:
    members = [
        member("m1", score=5, age_s=3.0, share=0.1, answers=0, metrics={"cpu_idle": 10.0}),
        member("m2", "drained", score=None, age_s=None, share=0.0, answers=0, metrics={}),
        member("m0", score=9, age_s=1.0, share=0.3, answers=0, metrics={"cpu_idle": 90.0}),
    ]
    board, view = board_of(status(pool(members=members))), View()
    orders = {view.sort: names(drawn(board, view))}
    for _ in range(len(SORTS) - 1):
        lines = pressed(view, board, "s")
        orders[view.sort] = names(lines)
    assert orders["configuration"] == ["m1", "m2", "m0"]
    assert orders["member"] == ["m0", "m1", "m2"]
    assert orders["state"] == ["m2", "m1", "m0"], "trouble first"
    assert orders["score"] == ["m0", "m1", "m2"]
    assert orders["age"] == ["m1", "m0", "m2"]
    assert orders["share"] == ["m0", "m1", "m2"]
    assert orders["cpu"] == ["m1", "m0", "m2"]
    assert names(pressed(view, board, "r")) == ["m2", "m0", "m1"]
    assert names(pressed(view, board, "r", "s")) == orders["configuration"]


def test_filtering() -> None:
    members = [member("m1"), member("m22", "silent"), member("m2")]
    board, view = board_of(status(pool(members=members))), View()
    lines = pressed(view, board, "/", "2", "q")
    assert lines[-1] == "/2q_"
    assert names(lines) == []
    assert not view.ended, "while letters are typed they are letters"
    assert names(pressed(view, board, "backspace", "enter")) == ["m22", "m2"]
    assert "with '2'" in "".join(drawn(board, view))
    assert names(pressed(view, board, "/", "s", "i", "l")) == ["m22"], "states count as well"
    assert names(pressed(view, board, "escape")) == ["m1", "m22", "m2"]
    pressed(view, board, "/", "1", "enter")
    assert names(pressed(view, board, "escape")) == ["m1", "m22", "m2"]


def test_pools() -> None:
    pools = [pool(f"pool{i}", [member(f"m{i}")]) for i in range(6)]
    board, view = board_of(status(*pools)), View()
    assert names(drawn(board, view)) == ["m0"]
    lines = pressed(view, board, "p", "p", "p")
    assert names(lines) == ["m3"]
    assert "> pool3 in hobbit: 1 of 1 usable, - answers/s" in lines
    assert sum("answers/s" in line for line in lines) == 4, "no more than there is room for"
    assert names(pressed(view, board, "p", "p", "p")) == ["m0"]
    view.pool = "gone"
    assert names(drawn(board, view)) == ["m0"]


def test_help_and_the_end() -> None:
    board, view = board_of(), View()
    assert "PgUp" in "".join(pressed(view, board, "?"))
    assert drawn(board, view)[0] == "lbdns top"
    assert pressed(view, board, "x")[0].startswith("lbdns 1.2.3")
    view.press("p", TopData())
    view.press("down", TopData())
    view.press("?", board)
    view.press("q", board)
    assert view.ended


def test_what_is_no_status() -> None:
    board = TopData()
    board.take_status({"pools": [{"name": "web"}]}, 0.0)
    with pytest.raises(KeyError):
        board.sample(0.0)


def test_an_event_that_is_told_twice_is_shown_once() -> None:
    board = board_of()
    for _ in range(2):
        board.take_event(event(1, "frodo is silent"))
    assert sum("frodo is silent" in line for line in drawn(board)) == 1
