"""Garbage collection settings for long-lived programs."""

from __future__ import annotations

import gc
from typing import Final

#: New containers per collection of young objects, which takes about a millisecond. Python's default of 700 starts
#: dozens of collections per second while reports arrive: readings are not garbage, but most outlive such a collection,
#: and then cause full collections, during which no query is answered
THRESHOLDS: Final = (20_000, 10, 10)


def tune_collections() -> None:
    """Exempt all present objects from garbage collection, and collect new ones less often.

    Call this function once a program has started: what exists then, such as its members, lives as long as the program,
    or has no reference cycles.
    """
    gc.collect()  # frees the garbage of the start, which would otherwise remain as well
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
