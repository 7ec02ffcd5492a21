"""The status document: pools, members, states, as ``/api/v1/status`` tells them. Pure: all it needs comes in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lbdns.explanation import Parts, reason, score_parts
from lbdns.farm import Farm, Pool
from lbdns.liveness import Liveness, assess
from lbdns.overrides import Overrides
from lbdns.policies.guard_rails.guards import NO_GUARD, Guard
from lbdns.snapshot import Reading, Snapshot

#: Seconds between signs of life on an event stream, for a follower and for a page.
FOLLOWER_KEEP_ALIVE: Final = 2.0
PAGE_KEEP_ALIVE: Final = 15.0


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """What the status says of the program itself."""

    version: str
    uptime_s: float
    queries: int
    workers: int
    started: float = 0.0  # Unix seconds
    types: Mapping[str, int] = field(default_factory=dict)  # queries so far, by the name of their type
    rcodes: Mapping[str, int] = field(default_factory=dict)  # responses so far, by the name of their rcode
    history: Mapping[str, Any] | None = None  # how recording goes, as plain data


@dataclass(frozen=True, slots=True)
class ShadowFigures:
    """What is tried beside the policy ``live``: what it would have handed out, per member in the pool's order, and how
    many hand-outs would have gone elsewhere."""

    live: str
    policy: str
    score: str  # empty: the one that counts
    answers: Sequence[int]
    diverted: int


@dataclass(frozen=True, slots=True)
class AdaptedFigures:
    """The score whose weights are being looked for, and how far that has come; ``gain`` is the part by which responses
    are shorter than with the configured weights, as far as trials tell."""

    score: str
    weights: Mapping[str, float]
    trials: int
    accepted: int
    gain: float


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a status is made from, at one moment ``now`` (monotonic seconds).

    ``answers``, ``shadows``, ``guards`` and ``capacities`` are by pool name: answers so far per member in the pool's
    order, what is tried beside its policies, what keeps members from their share, and what they can carry with whether
    that is requests/s, all in the pool's order.
    """

    farm: Farm
    snapshot: Snapshot
    now: float
    overrides: Overrides
    answers: Mapping[str, Sequence[int]]
    server: ServerFigures
    parts: Parts = lambda _: {}
    capacities: Mapping[str, tuple[Sequence[float], bool]] = field(default_factory=dict)
    shadows: Mapping[str, Sequence[ShadowFigures]] = field(default_factory=dict)
    adapted: AdaptedFigures | None = None
    guards: Mapping[str, Sequence[Guard]] = field(default_factory=dict)

    def guards_of(self, pool: Pool) -> Sequence[Guard]:
        """Of each member; during a reload those who hand out may know other members already, or still."""
        guards = self.guards.get(pool.name, ())
        return guards if len(guards) == len(pool.members) else (NO_GUARD,) * len(pool.members)

    def capacities_of(self, pool: Pool) -> tuple[Sequence[float], bool]:
        """Of each member, and whether it is requests/s; nothing where they aren't known."""
        found, is_measured = self.capacities.get(pool.name, ((), False))
        return (found, is_measured) if len(found) == len(pool.members) else ((), False)

    def readings(self, pool: Pool) -> list[Reading | None]:
        return [self.snapshot.readings.get(member.full_name) for member in pool.members]

    def liveness(self, pool: Pool) -> Liveness:
        steering = self.overrides.steering(pool.name)
        return assess(
            self.readings(pool),
            [steering.of(member.full_name) for member in pool.members],
            self.now,
            self.farm.config.collector.stale_after,
            pool.config.min_usable,
        )


def build_status(situation: Situation) -> dict[str, Any]:
    """The status document."""
    pools = (pool_pieces(situation, pool) for pool in situation.farm.pools)
    return {"pools": [{**head, "members": list(members)} for head, members in pools], **beside_pools(situation)}


def beside_pools(situation: Situation) -> dict[str, Any]:
    """What the status document has beside the pools."""
    server = situation.server
    return {
        "server": {
            "version": server.version,
            "uptime_s": round(server.uptime_s, 3),
            "queries": server.queries,
            "workers": server.workers,
            "started": round(server.started, 3),
            "types": dict(server.types),
            "rcodes": dict(server.rcodes),
            "history": server.history or {"on": False, "ok": True, "error": "", "dropped": 0, "bytes": 0},
        },
        **({"adaptive": _adapted(situation.adapted)} if situation.adapted else {}),
    }


def _adapted(figures: AdaptedFigures) -> dict[str, Any]:
    return {
        "score": figures.score,
        "weights": {metric: round(weight, 2) for metric, weight in figures.weights.items()},
        "trials": figures.trials,
        "accepted": figures.accepted,
        "gain": round(figures.gain, 4),
    }


def outlook(situation: Situation) -> tuple[object, float]:
    """What can change without a report, to compare with the last time, and when a state will.

    That moment is in monotonic seconds, inf for never.
    """
    signature: list[object] = []
    next_change = math.inf
    for pool in situation.farm.pools:
        liveness = situation.liveness(pool)
        guards = tuple((guard.why, guard.quarantined, guard.ramp < 1) for guard in situation.guards.get(pool.name, ()))
        shadows = tuple(figures.diverted for figures in situation.shadows.get(pool.name, ()))
        answers = tuple(situation.answers.get(pool.name, ()))
        signature.append((liveness.states, liveness.fail_open, answers, shadows, guards))
        next_change = min(next_change, liveness.next_change)
    signature.append(situation.overrides)
    return signature, next_change


def pool_pieces(situation: Situation, pool: Pool) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The document of a pool without its members, and its members one after another: whoever has little time at once
    makes them in pieces."""
    liveness = situation.liveness(pool)
    answers = situation.answers.get(pool.name) or [0] * len(pool.members)
    capacities, is_measured = situation.capacities_of(pool)
    total, whole = sum(answers), sum(capacities)
    head = {
        "name": pool.name,
        "zone": pool.config.zone,
        "policies": dict(pool.config.names),
        "fail_open": bool(liveness.fail_open),
        "fail_open_reason": liveness.fail_open,
        "measured": is_measured,
        "shadow": [_shadow(pool, figures) for figures in situation.shadows.get(pool.name, ())],
    }
    members = (
        {
            "name": member.name,
            "addresses": member.addresses,
            "state": state,
            "reason": reason(state, reading, overrides, situation.now),
            "guard": guard.text(situation.now),
            "answers": count,
            "share": round(count / total, 4) if total else 0.0,
            "capacity": round(capacity, 3) if capacities else None,
            "capacity_share": round(capacity / whole, 4) if whole else None,
            "overrides": [override.document() for override in overrides],
            **_reported(reading, situation.now),
            "score_parts": score_parts(reading, situation.parts) if reading else {},
        }
        for member, reading, state, overrides, guard, count, capacity in zip(
            pool.members,
            situation.readings(pool),
            liveness.states,
            (situation.overrides.of(pool.name, member.full_name) for member in pool.members),
            situation.guards_of(pool),
            answers,
            capacities or (0.0,) * len(pool.members),
            strict=True,
        )
    )
    return head, members


def _shadow(pool: Pool, figures: ShadowFigures) -> dict[str, Any]:
    total = sum(figures.answers)
    by_member = list(zip((member.name for member in pool.members), figures.answers, strict=True))
    return {
        "policy": figures.live,
        "shadow": figures.policy,
        "score": figures.score or None,
        "answers": dict(by_member),
        "share": {name: round(count / total, 4) if total else 0.0 for name, count in by_member},
        "diverted": figures.diverted,
        "diverted_share": round(figures.diverted / total, 4) if total else 0.0,
    }


def _reported(reading: Reading | None, now: float) -> dict[str, Any]:
    if reading is None:
        return {"score": None, "age_s": None, "interval_s": None, "metrics": {}, "alarm": "", "gone": False}
    return {
        "score": reading.score,
        **({} if reading.shadow_score is None else {"shadow_score": reading.shadow_score}),
        "age_s": round(max(0.0, now - reading.received), 3),
        "interval_s": reading.interval,
        "metrics": reading.metrics,
        "alarm": reading.alarm,
        "gone": reading.gone,
    }


class Changes:
    """The shorter document for followers: of the members that changed, what their reports say.

    It has the shape of the status, with pools and members that did not change left out, and of the rest
    only what a report can change. Ten thousand members that change every second are told this way, so it
    looks at nothing else.
    """

    def __init__(self, farm: Farm) -> None:
        self.farm = farm
        self._places: dict[str, list[tuple[str, str, str]]] = {}  # full name -> pool, zone, name
        for pool in farm.pools:
            for member in pool.members:
                self._places.setdefault(member.full_name, []).append((pool.name, pool.config.zone, member.name))

    def build(self, members: Iterable[str], readings: Mapping[str, Reading], now: float) -> dict[str, Any]:
        """What ``readings`` say of ``members``, by full names; ``now`` is in monotonic seconds."""
        pools: dict[str, dict[str, Any]] = {}
        for full_name in members:
            for pool, zone, name in self._places.get(full_name, ()):
                told = pools.setdefault(pool, {"name": pool, "zone": zone, "members": []})
                told["members"].append({"name": name, **_reported(readings.get(full_name), now)})
        return {"pools": list(pools.values())}


def changed_members(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> list[str]:
    """The full names of the members whose reading is not the one it was."""
    known = before.get
    return [name for name, reading in after.items() if known(name) is not reading]
