"""The state of the connection to a bus from which reports come, for status documents and metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class BusStatus:
    """``server`` is the URL of the connected server, or empty if there is none; ``problem`` is then the reason.

    ``counts`` contains the numbers of reports from the bus by result: "accepted", or a reason from
    ``lbdns_shared.report.REASONS``.
    """

    server: str = ""
    problem: str = "not connected yet"
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def connected(self) -> bool:
        return bool(self.server)

    def document(self) -> dict[str, Any]:
        return {
            "connected": self.connected,
            "server": self.server,
            "problem": self.problem,
            "counts": dict(self.counts),
        }
