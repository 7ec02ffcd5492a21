"""Liveness: derives each member's state (such as usable or silent) from its reading, and decides when pools fail open.

All functions are pure: callers pass the time as an argument.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lbdns.model.farm import Pool
from lbdns.model.overrides import ForcedState, Overrides
from lbdns.model.snapshot import Reading, Snapshot

State = Literal["usable", "silent", "drained", "alarm", "unknown"]
_FORCED: Final[Mapping[ForcedState, State]] = {"drained": "drained", "up": "usable", "down": "alarm"}
STATES: Final[tuple[State, ...]] = ("usable", "silent", "drained", "alarm", "unknown")


def state_of(
    reading: Reading | None, now: float, stale_after: float, forced: ForcedState = "", pool: str = ""
) -> State:
    """Return the state of one member at ``now`` (monotonic seconds). ``stale_after`` is a number of report intervals.

    A member that is forced down is in state "alarm". A member that fails the check of ``pool`` is silent.
    """
    if forced:
        return _FORCED[forced]
    if reading is None:
        return "unknown"
    if reading.gone or now >= silent_at(reading, stale_after) or reading.failure(pool):
        return "silent"
    return "alarm" if reading.alarm else "usable"


def silent_at(reading: Reading, stale_after: float) -> float:
    """Return the monotonic time in seconds at which a member becomes silent if no further report arrives.

    Callers must not compute this time themselves, because a rounding error could wake the planner just before the state
    changes.
    """
    return reading.received + stale_after * reading.interval


@dataclass(frozen=True, slots=True)
class Liveness:
    """The states of a pool's members, in the pool's order, and the indexes of the members that may be selected."""

    states: tuple[State, ...]
    candidates: tuple[int, ...]
    fail_open: str  # why every member that is not drained is a candidate; empty while the pool does not fail open
    next_change: float  # monotonic seconds: when a state changes if no report arrives; inf if never


NO_MEMBERS: Final = Liveness((), (), "", math.inf)  # of a pool that hosts may join and no host has joined


def assess(
    readings: Sequence[Reading | None],
    forced: Sequence[ForcedState],
    now: float,
    stale_after: float,
    min_usable: float,
    pool: str = "",
    sites: Sequence[Sequence[int]] = (),
    shown: Shown | None = None,
) -> Liveness:
    """Return the states and candidates of a pool; ``readings`` and ``forced`` are in the order of its members.

    Unless the pool fails open, the candidates are its usable members. A pool fails open if no member is usable. A pool
    also fails open if too few members are usable because reports from many members stopped at the same time. If the
    pool fails open, every member that is not drained is a candidate, because a failure of monitoring is more likely
    than a failure of all servers. While the pool fails open, members whose agents report a failed web server are
    excluded, unless no other member remains. ``min_usable`` is a fraction of the members that are not drained. ``pool``
    is the pool's name.

    ``sites`` contains the members of each site, if the pool has sites. Each site is then judged by itself, as Envoy
    judges each priority level for its panic threshold. The pool does not fail open while a site has enough usable
    members. Sites from which no report arrives are excluded while reports arrive from others: a network that separates
    a site from lbdns probably separates it from other clients as well.

    ``shown`` contains the states, if the caller has determined them already.
    """
    if not readings:
        return NO_MEMBERS
    shown = shown or _shown(readings, forced, now, stale_after, pool)
    states = shown.states
    usable = tuple(i for i, state in enumerate(states) if state == "usable")
    every_index = tuple(range(len(states)))
    living = [site for site in sites if any(_reports(readings[i], states[i], forced[i]) for i in site)]
    excluded = 0 < len(living) < len(sites)
    included = tuple(sorted(i for site in living for i in site)) if excluded else every_index
    # If every member is drained, answering with any of them is still better than no answer
    open_to = tuple(i for i in included if states[i] != "drained") or included
    may_serve = tuple(i for i in open_to if not ((r := readings[i]) and r.web_server_failed)) or open_to
    next_change = shown.next_change
    if not usable:
        why = "no member is usable"
    elif all(_stopped(readings, states, site, min_usable, stale_after, pool) for site in living or (every_index,)):
        silent = sum(states[i] == "silent" for i in included)
        why = f"reports from {silent} of {len(open_to)} members stopped at the same time"
    else:
        return Liveness(states, usable, "", next_change)
    return Liveness(states, may_serve, why + "; sites without reports are left out" * excluded, next_change)


@dataclass(frozen=True, slots=True)
class Shown:
    """What the readings show: the states of a pool's members, and when a state changes if no report arrives."""

    states: tuple[State, ...]
    next_change: float  # monotonic seconds; inf if never


def _shown(
    readings: Sequence[Reading | None], forced: Sequence[ForcedState], now: float, stale_after: float, pool: str
) -> Shown:
    states = tuple(state_of(r, now, stale_after, f, pool) for r, f in zip(readings, forced, strict=True))
    next_change = min(
        (
            silent_at(r, stale_after)
            for r, f in zip(readings, forced, strict=True)
            # Members that are forced up are included, because the load that they report counts while reports arrive
            if r is not None and f in ("", "up") and state_of(r, now, stale_after, pool=pool) in ("usable", "alarm")
        ),
        default=math.inf,
    )
    return Shown(states, next_change)


def pool_liveness(pool: Pool, snapshot: Snapshot, overrides: Overrides, now: float, stale_after: float) -> Liveness:
    """Return the liveness of ``pool``, based on the readings in ``snapshot`` and the forced states in ``overrides``."""
    readings = [snapshot.readings.get(member.full_name) for member in pool.members]
    pool_overrides = overrides.for_pool(pool.name)
    forced = [pool_overrides.forced_state(member.full_name) for member in pool.members]
    return assess(readings, forced, now, stale_after, pool.config.min_usable, pool.name, site_members(pool))


def site_members(pool: Pool) -> tuple[Sequence[int], ...]:
    """Return the indexes of the members of each site of ``pool``. The result is empty if the pool has no sites."""
    return tuple(pool.sites.members.values()) if pool.sites else ()


def _reports(reading: Reading | None, state: State, forced: ForcedState) -> bool:
    """Return whether a member is usable, or only excluded by an alarm although its web server works."""
    return state == "usable" or (state == "alarm" and not forced and not (reading and reading.web_server_failed))


def _stopped(
    readings: Sequence[Reading | None],
    states: Sequence[State],
    members: Sequence[int],
    min_usable: float,
    stale_after: float,
    pool: str,
) -> bool:
    """Return whether too few of the ``members`` are usable, because reports from many stopped at the same time. A site
    of which no member is usable counts as well, because it cannot replace other sites.
    """
    usable = sum(states[i] == "usable" for i in members)
    if not usable:
        return True
    not_drained = sum(states[i] != "drained" for i in members)
    return usable < min_usable * not_drained and _stopped_at_once(readings, states, members, stale_after, pool)


def _stopped_at_once(
    readings: Sequence[Reading | None], states: Sequence[State], members: Sequence[int], stale_after: float, pool: str
) -> bool:
    """Return whether all ``members`` that fell silent without a "bye" did so within ``stale_after`` report intervals of
    each other.

    The report interval is the median of all members' intervals.

    Servers usually fail one after another; if many fail at the same time, the cause is probably the network or the
    collector. If an agent reports that its web server has failed, the member is not counted, because its agent and the
    network work.
    """
    lost = [
        r
        for i in members
        if states[i] == "silent"
        and (r := readings[i]) is not None
        and not r.gone
        and not (r.web_server_failed and r.failure(pool))
    ]
    if len(lost) < 2:
        return False
    times = [r.received for r in lost]
    # Not the longest interval: a member that fails its check could declare a very long interval, and a later failure
    # of another member would then count as simultaneous
    interval = statistics.median_high(r.interval for r in readings if r is not None)
    return max(times) - min(times) <= stale_after * interval
