"""The state of the bus from which reports come, for status documents and metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from lbdns.bus.bus_state import BusState


@dataclass(slots=True)
class BusStatus:
    """``state`` is the state of the connection.

    ``counts`` contains the numbers of reports from the bus by result: "accepted", or a reason from
    ``lbdns_shared.report.REASONS``.
    """

    state: BusState = field(default_factory=BusState)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def connected(self) -> bool:
        return self.state.connected

    def document(self) -> dict[str, Any]:
        return {
            "connected": self.connected,
            "server": self.state.server,
            "problem": self.state.problem,
            "counts": dict(self.counts),
        }
