"""Tests of formatting text and numbers for a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from lbdns.commands.terminal.printable import (
    event_line,
    number,
    override_text,
    per_second,
    percent,
    printable,
)  # fmt: skip
from tests.commands.terminal.documents import STARTED, event, override


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gandalf", "gandalf"),
        ("über 東", "über 東"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m\u202eright to left", "\\x9b31m\\u202eright to left"),
        ("\ud800", "\\ud800"),
        (7, "7"),
    ],
)
def test_nothing_steers_the_terminal(text: object, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0.0, "0.00"), (3.14159, "3.14"), (9.999, "10.0"), (99.94, "99.9"), (999.96, "1000"),
        (12345.6, "12346"), (99_999.7, "100k"), (1_234_567, "1235k"), (123_456_789, "123M"),
        (1.7e308, "2e+308"),
    ],
)  # fmt: skip
def test_rates_fit_six_columns(value: float | None, text: str) -> None:
    assert per_second(value) == text
    assert len(text) <= 6


def test_what_is_not_known() -> None:
    assert (number(None), number(0.0, 1), percent(None), percent(0.256)) == ("-", "0.0", "-", "26%")


def test_absurd_numbers_are_short() -> None:
    assert (number(1.7e308, 2), number(-1.7e308), number(10**15), number(123_456_789)) == (
        *("2e+308", "-2e+308", "1e+15"), "123456789",
    )  # fmt: skip


def test_an_event_is_one_line() -> None:
    line = event_line(event(1, "frodo is \x1b[31msilent\n2023-11-14T00:00:00Z forged", level="warning"))
    assert line.plain == ("2023-11-14T22:13:20Z warning state: frodo is \\x1b[31msilent\\n2023-11-14T00:00:00Z forged")
    assert event_line(event(1, "x"), is_short=True).plain == "22:13:20Z info    state: x"
    with pytest.raises(KeyError):
        event_line({"text": "half an event"})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "drained by root 11min40s ago: new kernel"),
        ({"until": STARTED + 10_900.5}, "drained by root 11min40s ago, for another 2h: new kernel"),
        ({"pool": "web", "by": "", "reason": ""}, "drained in pool web 11min40s ago"),
        ({"kind": "up"}, "forced up by root 11min40s ago: new kernel"),
        ({"kind": "down"}, "forced down by root 11min40s ago: new kernel"),
        ({"kind": "weight", "factor": 0.5, "by": "sam\x07"}, "weight 0.5 by sam\\x07 11min40s ago: new kernel"),
    ],
)
def test_who_ordered_what_since_when_until_when_and_why(changes: dict[str, Any], text: str) -> None:
    assert override_text(override(**changes), STARTED + 3700.5) == text
