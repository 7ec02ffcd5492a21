"""What is said about a load generator that was the limit itself."""

from __future__ import annotations

import errno

import pytest

from lbdns_tools.load.generator_saturation import ProcessStrain, StartLateness, saturation

CALM = {"cpu_share": 0.3, "late_s": (0.0, 0.0, 0.0, 0.0), "local": {}, "held_back": 0, "max_connections": 0}


def strain(**changes: object) -> ProcessStrain:
    return ProcessStrain(**{**CALM, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpu_share": 0.97}, "process 2 of 2 used 97 % of a core"),
        ({"local": {errno.EADDRNOTAVAIL: 3}}, "3 requests found no free source port"),
        ({"local": {errno.EMFILE: 4}}, "4 requests found no free descriptor"),
        ({"local": {errno.ENOBUFS: 5}}, "no memory for 5 requests"),
        ({"late_s": (0.001, 0.01, 0.05, 0.2)}, "200 ms late in the end"),
        ({"held_back": 6, "max_connections": 10}, "6 requests waited for one of 10 connections"),
    ],
)
def test_each_limit_is_said(changes: dict[str, object], words: str) -> None:
    assert words in saturation([strain(), strain(**changes)])


def test_nothing_is_said_of_a_calm_one() -> None:
    assert saturation([strain(), strain(late_s=(0.02, 0.02, 0.02, 0.02))]) == ""
    assert saturation([strain(late_s=(0.0, 0.0, 0.0, 0.005))]) == ""
    assert saturation([]) == ""


def test_lateness_by_quarters() -> None:
    lateness = StartLateness(10.0, 14.0)
    for start in (10.0, 10.9, 11.5, 13.9, 20.0):
        lateness.add(start, start / 10)
    assert lateness.means() == pytest.approx([1.045, 1.15, 0.0, 1.695])
    forever = StartLateness(0.0, float("inf"))
    forever.add(5.0, 1.0)
    assert forever.means() == [1.0, 0.0, 0.0, 0.0]
