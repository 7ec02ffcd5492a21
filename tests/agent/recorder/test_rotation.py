from __future__ import annotations

import pytest

from lbdns_agent.recorder.rotation import Rotation, parse_rotation, rotated_name

NOON = "2026-03-01T12:00:00.000000+01:00"
MIDNIGHT = "2026-03-02T00:00:00.000000+01:00"


@pytest.mark.parametrize(
    ("text", "rotation"),
    [
        ("day", Rotation(daily=True)),
        ("4k", Rotation(max_bytes=4096)),
        ("10M", Rotation(max_bytes=10 * 2**20)),
        ("2G", Rotation(max_bytes=2**31)),
    ],
)
def test_parse(text: str, rotation: Rotation) -> None:
    assert parse_rotation(text) == rotation


@pytest.mark.parametrize("text", ["", "never", "10", "3k", "0M", "-1M", "1.5M", "10MB", "1T", "٣M"])
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be 'day' or a size of at least 4k, such as 500k, 10M or 1G"):
        parse_rotation(text)


@pytest.mark.parametrize(
    ("rotation", "size", "added", "now", "due"),
    [
        (Rotation(), 10**12, 100, MIDNIGHT, False),
        (Rotation(max_bytes=4096), 4000, 96, MIDNIGHT, False),
        (Rotation(max_bytes=4096), 4000, 97, NOON, True),
        (Rotation(daily=True), 10**12, 100, "2026-03-01T23:59:59.999999+01:00", False),
        (Rotation(daily=True), 100, 100, MIDNIGHT, True),
        (Rotation(daily=True), 100, 100, "2026-02-28T23:59:59.000000+01:00", False),  # the clock was set back
    ],
)
def test_is_due(rotation: Rotation, size: int, added: int, now: str, due: bool) -> None:
    assert rotation.is_due(size, added, NOON, now) is due


def test_rotated_names_are_those_of_the_first_row_and_sort_by_time() -> None:
    first = rotated_name("diskstats_sda.csv", NOON, 1)
    assert first == "diskstats_sda.2026-03-01T120000.csv"
    assert rotated_name("diskstats_sda.csv", NOON, 2) == "diskstats_sda.2026-03-01T120000-2.csv"
    assert first < rotated_name("diskstats_sda.csv", MIDNIGHT, 1)


def test_a_time_that_is_none() -> None:
    with pytest.raises(ValueError, match="isoformat"):
        rotated_name("diskstats.csv", "yesterday", 1)
