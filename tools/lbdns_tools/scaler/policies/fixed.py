"""The policy ``fixed``: always the same number of servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns.config import value_readers as read
from lbdns.text.counts import counted
from lbdns_tools.scaler.policies.round_history import within
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation

MOST: Final = 10_000  # servers


@dataclass(frozen=True, slots=True)
class Fixed:
    """Recommends a fixed number of servers, whatever the demand."""

    servers: int = read.integer(0, 0, MOST)  # 0: the farm's maximum

    @property
    def history(self) -> float:
        return 0.0

    def recommend(self, view: FarmView) -> Recommendation:
        servers = within(view, self.servers or view.maximum)
        return Recommendation(servers, f"The farm always has {counted(servers, 'server')}.")
