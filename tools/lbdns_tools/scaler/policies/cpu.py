"""The policy ``cpu``: adds or removes a server when the mean CPU utilization stays beyond a threshold."""

from __future__ import annotations

from dataclasses import dataclass

from lbdns.config import value_readers as read
from lbdns.text.counts import counted
from lbdns.text.times import format_duration
from lbdns_tools.scaler.policies.round_history import (
    DAY,
    LONGEST_PERIOD,
    covers,
    demands_since,
    last_change,
    standing,
    within,
)
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation


@dataclass(frozen=True, slots=True)
class Cpu:
    """Adds or removes servers if the mean CPU utilization is beyond a threshold, as Auto Scale did in the 2012 study.

    In that study, the farm had 1 to 20 servers.
    """

    add_above: float = read.number(70.0, 0.0, 100.0)  # % of CPU time
    remove_below: float = read.number(60.0, 0.0, 100.0)  # % of CPU time
    breach: float = read.duration(900.0, 0.0, DAY)  # how long every round must be beyond the threshold
    step: int = read.integer(1, 1, 1000)  # servers
    cool_down: float = read.duration(120.0, 0.0, DAY)  # after each change

    @property
    def history(self) -> float:
        return self.breach + self.cool_down + LONGEST_PERIOD

    def recommend(self, view: FarmView) -> Recommendation:
        now = standing(view)
        keeps = f"the farm keeps {counted(now, 'server')}."
        cpu = view.demand.cpu_percent
        if cpu is None:
            return Recommendation(now, f"The CPU utilization is unknown, so {keeps}")
        changed = last_change(view, self.cool_down)
        if changed is not None and view.now - changed < self.cool_down:
            left = format_duration(self.cool_down - (view.now - changed))
            return Recommendation(now, f"The cool-down ends in {left}, so {keeps}")
        span = format_duration(self.breach)
        if cpu > self.add_above and self._breached(view, 1):
            wanted = within(view, now + self.step)
            return Recommendation(
                wanted, f"The CPU utilization has been above {self.add_above:g}% for {span}: {cpu:.0f}%."
            )
        if cpu < self.remove_below and self._breached(view, -1):
            wanted = within(view, now - self.step)
            return Recommendation(
                wanted, f"The CPU utilization has been below {self.remove_below:g}% for {span}: {cpu:.0f}%."
            )
        return Recommendation(now, f"The CPU utilization of {cpu:.0f}% calls for no change yet, so {keeps}")

    def _breached(self, view: FarmView, side: int) -> bool:
        """Return whether the utilization was above (``side`` 1) or below (``side`` -1) the threshold in every round of
        the breach duration.
        """
        if not covers(view, self.breach):
            return False
        for demand in demands_since(view, self.breach):
            cpu = demand.cpu_percent
            if cpu is None or (cpu <= self.add_above if side > 0 else cpu >= self.remove_below):
                return False
        return True
