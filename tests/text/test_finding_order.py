"""Tests of the order of error messages."""

from __future__ import annotations

import pytest

from lbdns.text.finding_order import in_order


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        (["a:12: x", "a:3: y: z", "a: w"], ["a:3: y: z", "a:12: x", "a: w"]),
        (["b:2: x", "a:9: x", "b:1: x"], ["b:1: x", "b:2: x", "a:9: x"]),
        (["a.zone:1: x", "conf:7: x", "conf:2: x"], ["conf:2: x", "conf:7: x", "a.zone:1: x"]),
        (["a:1: second line\nb:0: x", "a:1: first"], ["a:1: second line\nb:0: x", "a:1: first"]),
        (["no line", "nor here"], ["no line", "nor here"]),
        ([], []),
    ],
)
def test_messages_are_grouped_by_file_in_order_of_lines(findings: list[str], expected: list[str]) -> None:
    assert in_order(findings, "conf") == expected
