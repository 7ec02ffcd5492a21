"""Tests of the texts that state why a member is in its state."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lbdns.model.liveness import State
from lbdns.model.overrides import Override
from lbdns.model.snapshot import Reading
from lbdns.planning.state_reason import reason

NOW = 100.0
REPORT = Reading(97.5, 1.0, 60)
DRAIN = Override("drain", "bilbo.hobbit", by="root", reason="new kernel")
DOWN = Override("down", "bilbo.hobbit", by="root")
HALF = Override("weight", "bilbo.hobbit", factor=0.5, by="root")


@pytest.mark.parametrize(
    ("state", "reading", "overrides", "expected"),
    [
        ("usable", REPORT, [], ""),
        ("usable", REPORT, [HALF], HALF.text()),
        ("drained", REPORT, [HALF, DRAIN], "drained by root: new kernel"),
        ("alarm", REPORT, [DOWN], "forced down by root"),
        ("alarm", Reading(97.5, 1.0, 60, alarm="disk full"), [], "alarm: disk full"),
        ("unknown", None, [], "has never reported"),
        ("silent", None, [], "has never reported"),
        ("silent", REPORT, [], "no report for 2.5 s"),
        ("silent", Reading(10.0, 1.0, 60), [], "no report for 90 s"),
        ("silent", Reading(97.5, 1.0, 60, gone=True), [], "its agent stopped 2.5 s ago"),
        ("silent", Reading(97.5, 1.0, None), [], "checks have stopped; no check passed for 2.5 s"),
    ],
)
def test_reason(state: State, reading: Reading | None, overrides: Sequence[Override], expected: str) -> None:
    assert reason(state, reading, overrides, NOW, "web") == expected
