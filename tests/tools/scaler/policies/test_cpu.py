"""Tests of the policy cpu: thresholds, breach duration, steps and cool-down."""

from __future__ import annotations

import pytest

from lbdns_tools.scaler.policies.cpu import Cpu
from tests.tools.scaler.policies.farm_views import MONDAY, DecidingFarm, rounds, view


@pytest.mark.parametrize(
    ("cpu", "minutes", "expected"),
    [
        (71.0, 15, 6), (71.0, 14, 5), (70.0, 15, 5), (100.0, 20, 6), (59.0, 15, 4), (59.0, 14, 5), (60.0, 15, 5),
        (65.0, 60, 5),
    ],
)  # fmt: skip
def test_thresholds_and_breach(cpu: float, minutes: int, expected: int) -> None:
    past = rounds([100.0] * minutes, 5, MONDAY - 60, cpu=cpu)
    assert Cpu().recommend(view(100.0, 5, past, cpu=cpu)).servers == expected


def test_one_round_within_the_thresholds_starts_the_breach_again() -> None:
    past = rounds([1.0] * 7, 5, MONDAY - 540, cpu=90.0) + rounds([1.0], 5, MONDAY - 480, cpu=65.0)
    past += rounds([1.0] * 7, 5, MONDAY - 60, cpu=90.0)
    found = Cpu().recommend(view(1.0, 5, past, cpu=90.0))
    assert (found.servers, found.reason) == (
        5,
        "The CPU utilization of 90% calls for no change yet, so the farm keeps 5 servers.",
    )


def test_the_cool_down_separates_changes() -> None:
    farm = DecidingFarm(Cpu(breach=60.0), 1)
    assert farm.follow([1.0] * 8, cpu=95.0) == [1, 2, 2, 3, 3, 4, 4, 5]
    assert farm.decide(1.0, 95.0).reason == "The cool-down ends in 1min, so the farm keeps 5 servers."


def test_steps_end_at_the_limits() -> None:
    for cpu, start, limit in ((99.0, 4, 7), (1.0, 4, 2)):
        farm = DecidingFarm(Cpu(breach=0.0, cool_down=0.0, step=2), start, minimum=2, maximum=7)
        assert farm.follow([1.0] * 5, cpu=cpu)[-1] == limit


def test_unknown_cpu_changes_nothing() -> None:
    past = rounds([1.0] * 20, 5, MONDAY - 60, cpu=95.0)
    assert Cpu().recommend(view(1.0, 5, past)).reason == "The CPU utilization is unknown, so the farm keeps 5 servers."
    past[-3] = rounds([1.0], 5, MONDAY - 180)[0]
    assert Cpu().recommend(view(1.0, 5, past, cpu=95.0)).servers == 5


def test_the_history_covers_the_breach() -> None:
    assert Cpu().history >= 900 + 120
