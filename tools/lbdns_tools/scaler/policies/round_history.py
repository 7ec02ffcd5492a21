"""Pure functions that analyze a farm's past rounds: mean rates, mean CPU use and changes in the number of servers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

from lbdns_tools.scaler.policies.scaling_policy import Demand, FarmView, ScalingRound

DAY: Final = 86_400.0  # s
#: The longest period between two rounds, in seconds. Policies ask for this much more history than they look back, so
#: that there is a round at or before the time that they look back to
LONGEST_PERIOD: Final = 3600.0


def round_up(number: float) -> int:
    """Return the number rounded up, ignoring floating-point errors: 600 * 0.035 is 21, not 22."""
    return ceil(number - 1e-9 * max(1.0, abs(number)))


def within(view: FarmView, servers: int) -> int:
    """Return the number of servers, limited to the farm's minimum (at least 1) and maximum."""
    least = max(1, view.minimum)
    return max(least, min(servers, max(least, view.maximum)))


def standing(view: FarmView) -> int:
    """Return the number of servers that the last round decided on.

    If there has been no round, return the number of servers in service or on their way.
    """
    if view.rounds:
        return within(view, view.rounds[-1].decided)
    return within(view, view.in_service + view.on_the_way)


def first_after(rounds: Sequence[ScalingRound], time: float) -> int:
    """Return the index of the first round whose period ended after ``time``."""
    return bisect_right(rounds, time, key=lambda past: past.demand.time)


def covers(view: FarmView, seconds: float) -> bool:
    """Return whether the past rounds cover the last ``seconds`` completely."""
    return not seconds or (bool(view.rounds) and view.rounds[0].demand.time <= view.demand.time - seconds)


def demands_since(view: FarmView, seconds: float) -> Iterator[Demand]:
    """Yield the demands of the last ``seconds``, oldest first. The last one is the current demand."""
    rounds = view.rounds
    for at in range(first_after(rounds, view.demand.time - seconds), len(rounds)):
        yield rounds[at].demand
    yield view.demand


def mean_rate_between(view: FarmView, begin: float, end: float) -> float | None:
    """Return the mean requests/s of the periods that ended after ``begin`` and at or before ``end``.

    If there is no such period, return None.

    The mean is weighted by the lengths of the periods, so it equals the number of requests divided by the total time.
    """
    rounds = view.rounds
    total = seconds = 0.0
    first = first_after(rounds, begin)
    before = rounds[first - 1].demand.time if first else begin
    for at in range(first, len(rounds) + 1):
        demand = rounds[at].demand if at < len(rounds) else view.demand
        if demand.time > end or demand.time <= begin:
            break
        length = demand.time - before
        total, seconds, before = total + demand.requests_per_s * length, seconds + length, demand.time
    return total / seconds if seconds > 0 else None


def mean_rate(view: FarmView, seconds: float) -> float:
    """Return the mean requests/s of the last ``seconds``, including the current period."""
    mean = mean_rate_between(view, view.demand.time - seconds, view.demand.time)
    return view.demand.requests_per_s if mean is None else mean


def highest_rate(view: FarmView, seconds: float) -> float:
    """Return the highest requests/s of the last ``seconds``, including the current period."""
    return max(demand.requests_per_s for demand in demands_since(view, seconds))


def last_change(view: FarmView, seconds: float) -> float | None:
    """Return the time of the newest round that decided on a different number of servers than the round before it, or
    None if there was no such round within the last ``seconds``."""
    rounds = view.rounds
    first = max(1, first_after(rounds, view.now - seconds))
    for at in range(len(rounds) - 1, first - 1, -1):
        if rounds[at].decided != rounds[at - 1].decided:
            return rounds[at].demand.time
    return None
