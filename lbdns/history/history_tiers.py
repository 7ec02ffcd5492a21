"""History tiers: at which resolutions the history is kept, and for how long. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lbdns.config.recording_sections import HistoryConfig

TierName = Literal["raw", "10s", "1min"]


@dataclass(frozen=True, slots=True)
class HistoryTier:
    """One resolution: ``step`` seconds per moment, and ``chunk`` seconds compressed together.

    Longer chunks are smaller and faster to read, but each commit rewrites the last one.
    """

    name: TierName
    table: str
    step: float
    chunk: float


RAW: Final = HistoryTier("raw", "raw", 1.0, 10.0)
TEN_SECONDS: Final = HistoryTier("10s", "mean_10s", 10.0, 120.0)
MINUTE: Final = HistoryTier("1min", "mean_1min", 60.0, 1200.0)
TIERS: Final = (RAW, TEN_SECONDS, MINUTE)  # the finest first


def retention(config: HistoryConfig) -> Mapping[TierName, float]:
    """Return for how many seconds each tier is kept; 0 means that it is not recorded."""
    return {"raw": config.keep_raw, "10s": config.keep_10s, "1min": config.keep_1min}
