"""The policy ``revenue``: the number of servers with the highest revenue, decided once per paid hour, as in the 2012
study."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Final, Literal

from lbdns.config import value_readers as read
from lbdns.text.counts import counted
from lbdns_tools.scaler.policies.delayed_off import nearest_full_period_first
from lbdns_tools.scaler.policies.revenue_model import HOUR, INCOME, PRICE, LossModel, Prices, best_servers
from lbdns_tools.scaler.policies.round_history import LONGEST_PERIOD, mean_rate_between, standing, within
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation

MOST_PRICE: Final = 1e6


@dataclass(frozen=True, slots=True)
class Revenue:
    """Measures the request rate in each billing hour. Removes servers shortly before the hour ends; adds servers after
    the hour has ended.

    The server that has been billed for the longest time determines when the farm's billing hours begin and end.
    """

    income: float = read.number(INCOME, 0.0, MOST_PRICE)  # per served request
    price: float = read.number(PRICE, 0.0, MOST_PRICE)  # per server and hour, in the same currency
    loss: Literal["capacity", "erlang_b"] = read.one_of("capacity", ("capacity", "erlang_b"))
    decide_before: float = read.duration(300.0, 0.0, HOUR / 2)  # before the full hour

    @property
    def history(self) -> float:
        return 2 * HOUR + LONGEST_PERIOD

    def recommend(self, view: FarmView) -> Recommendation:
        if not view.rounds:
            rate = view.demand.requests_per_s
            best = self._best(view, rate)
            servers = max(best, standing(view))  # removals wait for minute 55
            return Recommendation(servers, f"At the start, {_most(rate, best)}.")
        present, begin, before = standing(view), _hour_begin(view), view.rounds[-1].demand.time
        decision = begin + HOUR - self.decide_before
        if view.now >= decision > before:
            rate = self._rate(view, begin, decision)
            best = self._best(view, rate)
            why = f"Near the end of the hour, {_most(rate, best)}"
            if best < present:
                reason = f"{why}, so {counted(present - best, 'server')} can be removed now."
                return Recommendation(best, reason, nearest_full_period_first(view, HOUR))
            reason = f"{why}, so the farm keeps {counted(present, 'server')}."
            return Recommendation(present, reason)
        if view.now < decision and before < begin:
            rate = self._rate(view, begin - HOUR, begin - self.decide_before)
            best = self._best(view, rate)
            reason = f"A new hour begins, and {_most(rate, best)}."
            return Recommendation(max(best, present), reason)
        return Recommendation(
            present,
            "The number of servers changes only around the end of a paid hour, so the farm keeps "
            f"{counted(present, 'server')}.",
        )

    def _rate(self, view: FarmView, begin: float, end: float) -> float:
        """Return the mean requests/s from ``begin`` to ``end``, or the current rate if the mean is unknown."""
        rate = mean_rate_between(view, begin, max(end, begin + 1))
        return view.demand.requests_per_s if rate is None else rate

    def _best(self, view: FarmView, rate: float) -> int:
        prices = Prices(self.income, self.price)
        return within(view, best_servers(rate, view.capacity, prices, LossModel(self.loss), max(1, view.maximum)))


def _hour_begin(view: FarmView) -> float:
    """Return the time at which the farm's current billed hour began, or the last full hour if no server is being
    billed.
    """
    anchor = min((server.billed_since for server in view.servers if server.billed_since > 0), default=0.0)
    return anchor + floor((view.now - anchor) / HOUR) * HOUR


def _most(rate: float, servers: int) -> str:
    return f"revenue at {rate:.1f} requests/s is highest with {counted(servers, 'server')}"
