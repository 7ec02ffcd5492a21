"""Tests of the policy schedule: entries, overlaps, and the time zone."""

from __future__ import annotations

from zoneinfo import ZoneInfoNotFoundError

import pytest

from lbdns_tools.scaler.policies import schedule
from lbdns_tools.scaler.policies.schedule import Schedule
from lbdns_tools.scaler.policies.schedule_entries import parse_entry
from tests.tools.scaler.policies.farm_views import MONDAY, view

WEEK = Schedule(2, tuple(map(parse_entry, ("mon-fri 08:00-18:00 12", "mon 09:00-10:00 15", "sun 12:00-13:00 50"))))


@pytest.mark.parametrize(
    ("hours", "expected"), [(7.99, 2), (8, 12), (9, 15), (10, 12), (18, 2), (32, 12), (6 * 24 + 12, 20)]
)
def test_the_highest_entry_in_force_counts(hours: float, expected: int) -> None:
    assert WEEK.recommend(view(0.0, 1, now=MONDAY + hours * 3600)).servers == expected


@pytest.mark.parametrize(("zone", "expected"), [("UTC", 2), ("Europe/Berlin", 12), ("Asia/Kolkata", 12)])
def test_entries_are_in_local_time(zone: str, expected: int) -> None:
    policy = Schedule(2, (parse_entry("mon 08:00-18:00 12"),), zone)
    found = policy.recommend(view(0.0, 1, now=MONDAY + 7.5 * 3600))
    assert found.servers == expected
    assert f"({zone}), the schedule asks for {expected} servers." in found.reason


def test_the_reason_names_the_local_time() -> None:
    found = Schedule(time_zone="Europe/Berlin").recommend(view(0.0, 1, now=MONDAY))
    assert found.reason == "On Monday, 01:00 (Europe/Berlin), the schedule asks for 1 server."
    assert Schedule().history == 0


def test_utc_needs_no_time_zone_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ZoneInfoNotFoundError(name)

    schedule._zone.cache_clear()
    monkeypatch.setattr(schedule, "ZoneInfo", missing)
    assert WEEK.recommend(view(0.0, 1, now=MONDAY + 8 * 3600)).servers == 12
