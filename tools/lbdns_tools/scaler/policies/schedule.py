"""The policy ``schedule``: a number of servers by local time and day of the week."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from lbdns.config import value_readers as read
from lbdns.config.toml_reader import TomlTable
from lbdns.text.counts import counted
from lbdns.text.suggestions import suggestion
from lbdns_tools.scaler.policies.round_history import within
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation
from lbdns_tools.scaler.policies.schedule_entries import MOST, ScheduleEntry, parse_entry


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)  # UTC needs no time zone database


def _time_zone(table: TomlTable, name: str, default: str) -> str:
    text = table.string(name, default)
    try:
        _zone(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = suggestion(text, available_timezones())
        table.wrong(
            name, f"unknown time zone {text!r}; write an IANA name such as 'Europe/Berlin' or 'UTC'{near}", text
        )
        return default
    return text


@dataclass(frozen=True, slots=True)
class Schedule:
    """Recommends the number of servers in the schedule entry for the current time, or the largest such number if
    entries overlap.
    """

    servers: int = read.integer(1, 1, MOST)  # while no entry is in force
    entries: tuple[ScheduleEntry, ...] = read.each((), parse_entry)
    time_zone: str = read.key(_time_zone, "UTC")

    @property
    def history(self) -> float:
        return 0.0

    def recommend(self, view: FarmView) -> Recommendation:
        zone = _zone(self.time_zone)
        scheduled = [entry.servers for entry in self.entries if entry.covers(view.now, zone)]
        servers = within(view, max(scheduled, default=self.servers))
        time = datetime.fromtimestamp(view.now, zone).strftime("%A %H:%M").replace(" ", ", ")
        return Recommendation(
            servers, f"On {time} ({self.time_zone}), the schedule asks for {counted(servers, 'server')}."
        )
