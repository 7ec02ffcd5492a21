from __future__ import annotations

import logging

import pytest

from lbdns_agent.missing_values import FailureLog


@pytest.mark.parametrize(
    ("rounds", "lines"),
    [
        ([{}, {}], []),
        ([{"a": "x"}, {"a": "x"}, {"a": "now y"}], ["a: not measured: x"]),
        ([{"a": "x"}, {}, {"a": "y"}], ["a: not measured: x", "a: measured again", "a: not measured: y"]),
        ([{"b": "x", "a": "x", "c": "y"}], ["a, b: not measured: x", "c: not measured: y"]),
        ([{"a": "x"}, {"a": "x", "b": "y"}, {"b": "y"}], [
            "a: not measured: x", "b: not measured: y", "a: measured again",
        ]),
    ],
)  # fmt: skip
def test_a_line_when_it_breaks_and_one_when_it_works(
    rounds: list[dict[str, str]], lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    failures = FailureLog()
    with caplog.at_level(logging.INFO, "lbdns.agent"):
        for missing in rounds:
            failures.note("sensor", missing)
            failures.note("another", {})
    assert caplog.messages == lines
