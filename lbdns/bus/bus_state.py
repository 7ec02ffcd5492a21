"""The state of the program's connection to a bus, for status documents and metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BusState:
    """``server`` is the URL of the connected server, or empty if there is none; ``problem`` is then the reason."""

    server: str = ""
    problem: str = "not connected yet"

    @property
    def connected(self) -> bool:
        return bool(self.server)
