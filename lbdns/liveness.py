"""Who of a pool can be chosen: a member's state from the age of its reading. Pure: time is an argument."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lbdns.snapshot import Reading

#: What people have ordered for a member; "up" and "down" stand instead of what its reports say.
Forced = Literal["", "drained", "up", "down"]
State = Literal["usable", "silent", "drained", "alarm", "unknown"]
_FORCED: Final[Mapping[Forced, State]] = {"drained": "drained", "up": "usable", "down": "alarm"}
STATES: Final[tuple[State, ...]] = ("usable", "silent", "drained", "alarm", "unknown")


def state_of(reading: Reading | None, now: float, stale_after: float, forced: Forced = "") -> State:
    """The state of one member at ``now`` (monotonic seconds). ``stale_after`` is in report intervals.

    Forced down is an alarm that a person has raised.
    """
    if forced:
        return _FORCED[forced]
    if reading is None:
        return "unknown"
    if reading.gone or now >= silent_at(reading, stale_after):
        return "silent"
    return "alarm" if reading.alarm else "usable"


def silent_at(reading: Reading, stale_after: float) -> float:
    """When a member turns silent if no report arrives, monotonic seconds.

    The one place that adds this up: a state that changed a rounding error after ``next_change`` would be missed.
    """
    return reading.received + stale_after * reading.interval


@dataclass(frozen=True, slots=True)
class Liveness:
    """The states of a pool's members, in their order, and the indexes that may be handed out."""

    states: tuple[State, ...]
    candidates: tuple[int, ...]
    fail_open: str  # why all members that are not drained are handed out; empty while that is not so
    next_change: float  # when a state changes if no report arrives, monotonic seconds; inf if never


def assess(
    readings: Sequence[Reading | None],
    forced: Sequence[Forced],
    now: float,
    stale_after: float,
    min_usable: float,
) -> Liveness:
    """Who may be handed out. With nobody usable, or too few because reports stopped all at once, everybody
    who is not drained: when all look down it is most likely the looking that failed.
    """
    states = tuple(state_of(r, now, stale_after, f) for r, f in zip(readings, forced, strict=True))
    usable = tuple(i for i, state in enumerate(states) if state == "usable")
    everybody = tuple(range(len(states)))
    # With all of them drained too there is no better answer than all of them
    open_to = tuple(i for i in everybody if states[i] != "drained") or everybody
    next_change = min(
        (
            silent_at(r, stale_after)
            for r, f in zip(readings, forced, strict=True)
            # Of a member forced up too: what its reports say of its load is believed while they come
            if r is not None and f in ("", "up") and state_of(r, now, stale_after) in ("usable", "alarm")
        ),
        default=math.inf,
    )
    if not usable:
        why = "no member is usable"
    elif len(usable) < min_usable * len(open_to) and _stopped_at_once(readings, states, stale_after):
        why = f"reports of {states.count('silent')} of {len(open_to)} members stopped all at once"
    else:
        return Liveness(states, usable, "", next_change)
    return Liveness(states, open_to, why, next_change)


def _stopped_at_once(readings: Sequence[Reading | None], states: Sequence[State], stale_after: float) -> bool:
    """Whether the silent members fell silent within ``stale_after`` intervals of each other, unannounced.

    Servers that die one after another are dead; several in the same moment are a network or a collector
    that no longer hears them.
    """
    lost = [r for r, s in zip(readings, states, strict=True) if s == "silent" and r is not None and not r.gone]
    if len(lost) < 2:
        return False
    times = [r.received for r in lost]
    return max(times) - min(times) <= stale_after * max(r.interval for r in lost)
