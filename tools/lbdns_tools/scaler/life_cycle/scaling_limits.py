"""Limits on the number of servers that apply to every policy: minimum, maximum, quota, cool-down and delay. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lbdns.config import value_readers as read
from lbdns.text.counts import counted
from lbdns_tools.scaler.policies.round_history import (
    DAY,
    LONGEST_PERIOD,
    covers,
    first_after,
    last_change,
    standing,
    within,
)
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation


@dataclass(frozen=True, slots=True)
class ScalingLimits:
    """How quickly the farm follows its policy: immediately by default, as most policies have delays of their own."""

    cool_down: float = read.duration(0.0, 0.0, DAY)  # after each change of the number, before the next one
    delay_in: float = read.duration(0.0, 0.0, DAY)  # how long the policy must recommend fewer servers before some go

    @property
    def history(self) -> float:
        """How many seconds of past rounds the limits need."""
        longest = max(self.cool_down, self.delay_in)
        return longest + LONGEST_PERIOD if longest else 0.0

    def apply(self, wanted: Recommendation, view: FarmView, quota: int | None = None) -> Recommendation:
        """Return the recommendation, adjusted to the limits. If a limit changes the number, the reason names that
        limit.

        ``quota`` is the number of servers that the provider permits; a quota of 0 counts as 1.
        """
        farm = view if quota is None or quota >= view.maximum else replace(view, maximum=max(1, quota))
        if farm.maximum < farm.minimum:
            farm = replace(farm, minimum=farm.maximum)
        servers = within(farm, wanted.servers)
        if servers != wanted.servers:
            limit = "must have at least" if servers > wanted.servers else "may have at most"
            wanted = _changed(wanted, servers, f"The farm {limit} {counted(servers, 'server')}.")
        present = within(farm, standing(view))
        if servers < present and self.delay_in:
            longest = min(present, max(servers, within(farm, self._highest(view))))
            if longest > servers:
                servers = longest
                wanted = _changed(
                    wanted, servers, f"Servers are removed only after {self.delay_in:.0f} s of lower recommendations."
                )
        changed = last_change(view, self.cool_down)
        if servers != present and changed is not None and view.now - changed < self.cool_down:
            wanted = _changed(
                wanted, present, f"The number of servers stays the same for {self.cool_down:.0f} s after a change."
            )
        return wanted

    def _highest(self, view: FarmView) -> int:
        """Return the highest recommendation of the last ``delay_in`` seconds. If it is unknown, return the present
        number of servers."""
        rounds = view.rounds
        if not covers(view, self.delay_in):
            return standing(view)
        first = first_after(rounds, view.now - self.delay_in)
        return max((rounds[at].recommended for at in range(first, len(rounds))), default=0)


def _changed(wanted: Recommendation, servers: int, reason: str) -> Recommendation:
    return Recommendation(servers, f"{wanted.reason} {reason}", wanted.remove)
