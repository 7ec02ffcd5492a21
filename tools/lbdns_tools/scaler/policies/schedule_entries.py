"""Entries of a weekly schedule, such as ``mon-fri 08:00-18:00 12``, and the moments at which they begin and end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from lbdns.text.suggestions import nearest

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES: Final = 24 * 60
MOST: Final = 10_000  # servers
HINT: Final = "write DAYS FROM-TO SERVERS, such as 'mon-fri 08:00-18:00 12'"
_TIMES: Final = re.compile(r"([01]\d|2[0-4]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """A number of servers for a time of day on some days of the week, in local time.

    If an entry's end is not later than its beginning, the entry ends on the following day.
    """

    days: frozenset[int]  # 0 is Monday
    begin: int  # minutes after midnight
    end: int
    servers: int

    def covers(self, now: float, zone: tzinfo) -> bool:
        """Return whether the entry is in force at the Unix time ``now``.

        If a local time occurs twice because the clock is set back, its first occurrence counts for the beginning of an
        entry, and its second occurrence for the end. If a local time is skipped because the clock is set forward, it
        stands for the moment of the change.
        """
        today = datetime.fromtimestamp(now, zone).date()
        for day in (today - timedelta(days=1), today):
            if day.weekday() in self.days:
                following = day if self.end > self.begin else day + timedelta(days=1)
                if moment(day, self.begin, zone) <= now < moment(following, self.end, zone, last=True):
                    return True
        return False


def moment(day: date, minute: int, zone: tzinfo, *, last: bool = False) -> float:
    """Convert a local time to Unix time. ``minute`` counts from midnight.

    If the local time occurs twice, ``last`` selects its second occurrence instead of its first.
    """
    local = datetime(day.year, day.month, day.day) + timedelta(minutes=minute)
    first = local.replace(tzinfo=zone).timestamp()
    second = local.replace(tzinfo=zone, fold=1).timestamp()
    if first <= second:
        return second if last else first
    return _change_between(second, first, zone)


def _change_between(early: float, late: float, zone: tzinfo) -> float:
    """Return the Unix time, in whole seconds, at which the zone's offset changes."""
    before = datetime.fromtimestamp(early, zone).utcoffset()
    while late - early > 1:
        middle = (early + late) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return late


def parse_entry(text: str) -> ScheduleEntry:
    """Parse ``DAYS FROM-TO SERVERS``. Raises ValueError."""
    words = text.lower().split()
    if len(words) != 3:
        raise ValueError(f"{text!r} must have three parts; {HINT}")
    times = _TIMES.fullmatch(words[1])
    if not times:
        raise ValueError(f"{text!r}: {words[1]!r} is not a period from 00:00 to 24:00; {HINT}")
    begin, end = int(times[1]) * 60 + int(times[2]), int(times[3]) * 60 + int(times[4])
    if max(begin, end) > DAY_MINUTES or begin == DAY_MINUTES:
        raise ValueError(f"{text!r}: {words[1]!r} must begin before 24:00 and end at 24:00 at the latest")
    if not re.fullmatch(r"\d{1,5}", words[2], re.ASCII) or not 1 <= int(words[2]) <= MOST:
        raise ValueError(f"{text!r}: the number of servers must be from 1 to {MOST}, not {words[2]!r}")
    return ScheduleEntry(_days(words[0]), begin, end, int(words[2]))


def _days(text: str) -> frozenset[int]:
    """Return the days of a list of days and ranges, such as ``mon-thu,sat``, ``fri-mon`` or ``daily``."""
    found: set[int] = set()
    for part in text.split(","):
        if part == "daily":
            found.update(range(7))
            continue
        first, dash, last = part.partition("-")
        for day in (first, last) if dash else (first,):
            if day not in DAYS:
                raise ValueError(f"unknown day {day!r}{nearest(day, (*DAYS, 'daily'))}")
        begin = DAYS.index(first)
        length = (DAYS.index(last) - begin) % 7 if dash else 0
        found.update((begin + at) % 7 for at in range(length + 1))
    return frozenset(found)
