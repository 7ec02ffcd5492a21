"""The policy ``reactive``: as many servers as the current rate needs, by the rules of the 2014 scaler."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from typing import Final

from lbdns.config import value_readers as read
from lbdns.text.counts import counted
from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.round_history import round_up, within
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation

PER_SERVER_2014: Final = 10.0  # sessions/s
BASELINE_ROUNDS: Final = 2  # rounds that measure and change nothing


@dataclass(frozen=True, slots=True)
class Reactive:
    """Divides the current rate by the rate of one server, and rounds up.

    With ``as_of_2014``, the policy makes the same decisions as the program of 2014, including its four mistakes. In the
    first two rounds, the policy recommends no change. The rate is rounded up before it is divided. If exactly one
    server is stopped, the farm grows by only one server, even if it needs more. When the farm needs no more servers
    than its minimum, too few servers are removed.
    """

    per_server: float = read.number(0.0, 0.0, 1e6)  # requests/s; 0: the capacity of a server, or 10 as of 2014
    as_of_2014: bool = read.flag(False)

    @property
    def history(self) -> float:
        return 0.0

    def recommend(self, view: FarmView) -> Recommendation:
        removal = _last_first(view)
        if self.as_of_2014:
            servers, reason = self._as_of_2014(view)
            return Recommendation(servers, reason, removal)
        per_server = self.per_server or view.capacity
        needed = round_up(view.demand.requests_per_s / per_server)
        return Recommendation(within(view, needed), self._reason(view, needed, per_server), removal)

    def _as_of_2014(self, view: FarmView) -> tuple[int, str]:
        active, minimum = view.in_service, view.minimum
        per_server = self.per_server or PER_SERVER_2014
        if len(view.rounds) < BASELINE_ROUNDS:
            keeps = f"so the farm keeps {counted(active, 'server')}"
            return active, f"The first {BASELINE_ROUNDS} rounds measure a baseline, {keeps}."
        needed = ceil(ceil(view.demand.requests_per_s) / per_server)
        reason = self._reason(view, needed, per_server)
        if needed > active:
            lacking = 1 if view.count(ServerState.STOPPED) == 1 else needed - active
            return max(active, min(active + lacking, view.maximum)), reason
        if needed == active or active <= minimum:
            return active, reason
        if needed > minimum:
            return needed, reason
        return active - max(0, active - (needed + minimum)), reason

    def _reason(self, view: FarmView, needed: int, per_server: float) -> str:
        rate = view.demand.requests_per_s
        return f"{rate:.1f} requests/s need {counted(needed, 'server')} at {per_server:.1f} requests/s each."


def _last_first(view: FarmView) -> tuple[str, ...]:
    """Return the names of the servers in service in reverse natural order: node-10 before node-9."""
    names = [server.name for server in view.servers if server.state is ServerState.IN_SERVICE]
    return tuple(sorted(names, key=_natural, reverse=True))


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
