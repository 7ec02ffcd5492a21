"""Rows of characters that show how figures went."""

from __future__ import annotations

from lbdns.commands.terminal.sparkline import LETTERS, sparkline


def test_heights() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7, 8], 9, 8.0) == "▁▂▃▄▅▆▇██"
    assert sparkline([0, 5, 10], 3) == "▁▅█", "the greatest is full unless it is said what is"
    assert sparkline([0, 50, 200, -3], 4, 100.0) == "▁▅█▁", "beyond both ends it is at the end"


def test_the_newest_are_at_the_right_and_gaps_are_empty() -> None:
    assert sparkline([8, 8, 1, None, 8], 3, 8.0) == "▂ █"
    assert sparkline([8], 4) == "   █"
    assert sparkline([], 4) == "    "
    assert sparkline([1.0], 0) == ""


def test_nothing_but_zeros_and_terminals_without_blocks() -> None:
    assert sparkline([0, 0], 2) == "▁▁"
    assert sparkline([0, 4, 8], 3, 8.0, LETTERS) == "_+#"
    assert LETTERS.isascii()
