"""The policy ``forecast``: if the demand rose at this time on earlier days, starts servers before it rises again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from lbdns.config import value_readers as read
from lbdns.text.counts import counted
from lbdns_tools.percentiles import percentile
from lbdns_tools.scaler.policies.queue import Queue
from lbdns_tools.scaler.policies.round_history import (
    DAY,
    LONGEST_PERIOD,
    covers,
    first_after,
    mean_rate_between,
    round_up,
    within,
)
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation

LEVEL_SECONDS: Final = 600.0  # s: long enough to average out noise, short compared with the course of a day
MOST_GROWTH: Final = 4.0  # a day on which the demand grew by more says nothing about today
RISING: Final = 1.02  # the demand rises if it exceeds that of the previous level by this factor


@dataclass(frozen=True, slots=True)
class Forecast(Queue):
    """A seasonal-naive forecast with trend: today's level times the growth of earlier days at the same time of day.

    The forecast covers the time until clients use a new server: boot time plus TTL. The growth is a quantile of the
    growths on earlier days of the same type: weekdays if today is a weekday, or else weekend days. The forecast only
    adds servers. With less than a day of history, and for removals, the rules of ``queue`` apply.
    """

    boot_time: float = read.duration(180.0, 0.0, 3600.0)
    ttl: float = read.duration(60.0, 0.0, 3600.0)  # of the farm's name in DNS
    quantile: float = read.number(90.0, 1.0, 100.0)  # % of earlier days whose growth the forecast covers
    days: int = read.integer(14, 1, 14)  # of history
    spare: int = read.integer(1, 0, 100)  # servers in reserve while the demand rises

    @property
    def history(self) -> float:
        return self.days * DAY + LEVEL_SECONDS + LONGEST_PERIOD

    def recommend(self, view: FarmView) -> Recommendation:
        rate, now = view.demand.requests_per_s, view.demand.time
        if not covers(view, DAY):
            queue = self.decide(view, rate, "")
            return Recommendation(
                queue.servers, f"With less than 24 h of history, policy queue decides: {queue.reason}", queue.remove
            )
        level = self._level(view, now)
        growths = self._growths(view)
        growth = max(1.0, percentile(growths, self.quantile)) if growths else 1.0
        ahead = max(rate, level * growth)
        horizon = self.boot_time + self.ttl
        spare = self._spare(view, level, ahead)
        days = counted(len(growths), "earlier day")
        why = (
            f"{ahead:.1f} requests/s, expected within {horizon:.0f} s according to {days}, "
            f"need {counted(within(view, self.servers(ahead, view.capacity) + spare), 'server')}."
        )
        return self.decide(view, ahead, why, spare)

    def _level(self, view: FarmView, end: float) -> float:
        mean = mean_rate_between(view, end - LEVEL_SECONDS, end)
        return view.demand.requests_per_s if mean is None else mean

    def _spare(self, view: FarmView, level: float, ahead: float) -> int:
        """Return how many servers to add so that ``spare`` servers are idle. If the demand is not rising, return 0."""
        before = mean_rate_between(view, view.demand.time - 2 * LEVEL_SECONDS, view.demand.time - LEVEL_SECONDS)
        if before is None or level <= before * RISING:
            return 0
        idle = self.servers(ahead, view.capacity) - round_up(ahead / view.capacity)
        return max(0, self.spare - idle)

    def _growths(self, view: FarmView) -> list[float]:
        """Return the growth on each earlier day of the same kind (weekday or weekend), or on every earlier day if none
        of that kind is known."""
        now = view.demand.time
        times = [now - day * DAY for day in range(1, self.days + 1)]
        weekend = _is_weekend(now)
        same = [growth for time in times if _is_weekend(time) == weekend and (growth := self._growth(view, time))]
        return same or [growth for time in times if (growth := self._growth(view, time))]

    def _growth(self, view: FarmView, then: float) -> float | None:
        """Return the highest rate after ``then`` divided by the mean rate before it, or None if unknown."""
        rounds, begin, end = view.rounds, then - LEVEL_SECONDS, then + self.boot_time + self.ttl
        first = first_after(rounds, begin)
        before, total, peak = begin, 0.0, 0.0
        for at in range(first, len(rounds)):  # at most a few dozen rounds; one search, because it costs most
            demand = rounds[at].demand
            if demand.time > end:
                break
            if demand.time <= then:
                total += demand.requests_per_s * (demand.time - before)
                before = demand.time
            else:
                peak = max(peak, demand.requests_per_s)
        if first == 0 or not total or not peak:
            return None
        growth = peak * (before - begin) / total
        return growth if growth <= MOST_GROWTH else None


def _is_weekend(time: float) -> bool:
    return datetime.fromtimestamp(time, UTC).weekday() >= 5
