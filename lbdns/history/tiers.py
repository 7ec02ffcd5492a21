"""How finely the past is kept, and for how long. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lbdns.config.history import HistoryConfig

TierName = Literal["raw", "10s", "1min"]


@dataclass(frozen=True, slots=True)
class Tier:
    """``step`` seconds from one time to the next; ``chunk`` seconds are compressed together.

    Longer chunks are smaller and quicker to read, but the last one is written again with every commit.
    """

    name: TierName
    table: str
    step: float
    chunk: float


RAW: Final = Tier("raw", "raw", 1.0, 10.0)
TEN_SECONDS: Final = Tier("10s", "mean_10s", 10.0, 120.0)
MINUTE: Final = Tier("1min", "mean_1min", 60.0, 1200.0)
TIERS: Final = (RAW, TEN_SECONDS, MINUTE)  # the finest first


def kept(config: HistoryConfig) -> Mapping[TierName, float]:
    """For how many seconds each tier is kept; 0: not at all."""
    return {"raw": config.keep_raw, "10s": config.keep_10s, "1min": config.keep_1min}
