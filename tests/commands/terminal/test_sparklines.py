"""Tests of lines of bars for a terminal."""

from __future__ import annotations

import pytest

from lbdns.commands.terminal.sparklines import ABOVE, LETTERS, bar_means, bar_scale, draw_bars, sparkline


def test_sparkline_heights() -> None:
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


@pytest.mark.parametrize(
    ("values", "width", "means"),
    [
        ([1.0, 3.0, None, None, 2.0, None], 3, [2.0, None, 2.0]),
        ([1.0, 2.0], 3, [1.0, 2.0]),
        ([1.0, 2.0, 3.0], 2, [1.0, 2.5]),
    ],
)
def test_each_bar_is_the_mean_of_its_values(values: list[float | None], width: int, means: list[float | None]) -> None:
    assert bar_means(values, width) == means


@pytest.mark.parametrize(
    ("means", "low", "scale"),
    [
        ([1.0, 2.0], 0.0, (2.0, False)),
        ([*[1.0] * 30, 50.0], 0.0, (1.0, True)),
        ([*[0.0] * 30, 50.0], 0.0, (50.0, False)),
        ([0.0, 0.0], 0.0, (0.0, False)),
        ([*[-4.0] * 30, -3.0, 46.0], -5.0, (-3.0, True)),
    ],
)
def test_a_few_bars_that_are_much_higher_do_not_flatten_the_others(
    means: list[float], low: float, scale: tuple[float, bool]
) -> None:
    assert bar_scale(means, low) == scale


def test_bars_above_the_scale_and_missing_bars_are_marked() -> None:
    assert draw_bars([0.0, 1.0, None, 5.0], 0.0, 1.0) == f"▁█ {ABOVE}"
