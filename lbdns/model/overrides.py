"""Operators' overrides, which drain members, force them up or down, or set their weights, regardless of reports.

The objects are immutable. ``lbdns.server.control`` receives the operators' orders and stores them on disk.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lbdns.config.pool_section import GREATEST_WEIGHT, LEAST_WEIGHT

#: The state that an operator forces on a member; "up" and "down" replace the state that its reports show.
ForcedState = Literal["", "drained", "up", "down"]
OverrideKind = Literal["drain", "up", "down", "weight"]
KINDS: Final[tuple[OverrideKind, ...]] = ("drain", "up", "down", "weight")
#: Override kind -> slot. A member has at most one override per slot; a new one replaces the old one.
SLOTS: Final[Mapping[OverrideKind, str]] = {"drain": "drain", "up": "force", "down": "force", "weight": "weight"}
LEAST_FACTOR: Final = LEAST_WEIGHT
GREATEST_FACTOR: Final = GREATEST_WEIGHT
MAX_REASON: Final = 200  # characters


@dataclass(frozen=True, slots=True)
class Override:
    """An override in force, which an operator has set for one member.

    ``member`` is a full name; ``since`` and ``until`` are in Unix seconds.
    """

    kind: OverrideKind
    member: str
    pool: str = ""  # empty: every pool with this member
    factor: float = 1.0  # of a weight: multiplies the member's capacity and its score
    by: str = ""  # the user who gave the order
    reason: str = ""
    since: float = 0.0
    until: float = math.inf
    origin: str = ""  # the URL of the collector that was given the order; empty: this server
    server: str = ""  # the name of the server that was given the order; empty unless servers share their overrides

    @property
    def slot(self) -> str:
        return SLOTS[self.kind]

    @property
    def place(self) -> tuple[str, str, str]:
        """Return the key (slot, member, pool), which is unique among the overrides in force."""
        return self.slot, self.member, self.pool

    def concerns(self, pool: str, member: str) -> bool:
        """Return whether the override applies to ``member`` (full name) of ``pool``."""
        return self.member == member and self.pool in ("", pool)

    def text(self, until: str = "") -> str:
        """Return a description of the override, such as ``drained by root: new kernel``.

        ``until`` is a phrase that states the end time; the description contains this phrase after the verb.
        """
        what = {"drain": "drained", "up": "forced up", "down": "forced down", "weight": f"weight {self.factor:g}"}
        by = f" by {self.by}" if self.by else ""
        by += f" at {place}" if (place := self.origin or self.server) else ""
        return f"{what[self.kind]}{until}{by}{': ' + self.reason if self.reason else ''}"

    def document(self) -> dict[str, Any]:
        """Return the override as plain data, for the HTTP interface, the override file and a successor process."""
        return {
            "kind": self.kind,
            "member": self.member,
            "pool": self.pool,
            "factor": self.factor,
            "by": self.by,
            "reason": self.reason,
            "since": self.since,
            "until": self.until if math.isfinite(self.until) else None,
            "origin": self.origin,
            "server": self.server,
        }


def read_override(value: Any) -> Override:
    """Convert the result of ``Override.document`` back into an override. Raises ValueError if ``value`` is invalid."""
    try:
        kind = next((known for known in KINDS if known == value["kind"]), None)
        until = value["until"]
        texts = [
            *(value[key] for key in ("member", "pool", "by", "reason")),
            *(value.get(key, "") for key in ("origin", "server")),
        ]
        factor, since = float(value["factor"]), float(value["since"])
        ends = math.inf if until is None else float(until)
    except (TypeError, KeyError, ValueError, OverflowError, AttributeError) as error:
        raise ValueError(f"not a valid override: {error!r}") from None
    member, pool, by, reason, origin, server = texts
    if kind is None or not all(isinstance(text, str) for text in texts) or not member:
        raise ValueError(f"not a valid override: {value!r}")
    if not LEAST_FACTOR <= factor <= GREATEST_FACTOR or not math.isfinite(since) or math.isnan(ends):
        raise ValueError(f"not a valid override: factor, since or until is out of range in {value!r}")
    return Override(kind, member, pool, factor, by, reason, since, ends, origin, server)


def merge_overrides(own: Iterable[Override], followed: Iterable[Override]) -> Overrides:
    """Return this server's overrides, and the followed collector's overrides that the server does not replace."""
    own = tuple(own)
    replaced = {o.place for o in own} | {(o.slot, o.member) for o in own if not o.pool}
    return Overrides((*own, *(o for o in followed if o.place not in replaced and o.place[:2] not in replaced)))


@dataclass(frozen=True, slots=True)
class PoolOverrides:
    """The combined effect of all overrides on one pool, by full member name."""

    forced: Mapping[str, ForcedState] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)

    def forced_state(self, member: str) -> ForcedState:
        """Return the state forced on ``member`` (full name), or an empty string if no state is forced."""
        return self.forced.get(member, "")


NO_POOL_OVERRIDES: Final = PoolOverrides()


@dataclass(frozen=True, slots=True)
class Overrides:
    """All overrides in force. The object is immutable: every change returns a new object."""

    items: tuple[Override, ...] = ()
    # Computed only once, because every report needs all pools and every status page needs all members
    _by_member: dict[str, list[Override]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _by_pool: dict[str, PoolOverrides] = field(default_factory=dict, init=False, repr=False, compare=False)

    def put(self, override: Override) -> Overrides:
        """Return a copy with ``override`` added, which replaces any override with the same ``place``."""
        return Overrides((*(o for o in self.items if o.place != override.place), override))

    def without(self, removed: Iterable[Override]) -> Overrides:
        """Return a copy without the overrides in ``removed``."""
        removed = set(removed)
        return Overrides(tuple(o for o in self.items if o not in removed))

    @property
    def own(self) -> tuple[Override, ...]:
        """Return the overrides that were set on this server, or on one that shares its overrides with this server."""
        return tuple(o for o in self.items if not o.origin)

    @property
    def followed(self) -> tuple[Override, ...]:
        """Return the overrides that were set on the followed collector."""
        return tuple(o for o in self.items if o.origin)

    def ended(self, now: float) -> list[Override]:
        """Return the overrides that have expired by ``now`` (Unix seconds)."""
        return [o for o in self.items if o.until <= now]

    @property
    def next_end(self) -> float:
        """Return the Unix time in seconds at which the next override expires, or inf if no override expires."""
        return min((o.until for o in self.items), default=math.inf)

    def of(self, pool: str, member: str) -> list[Override]:
        """Return the overrides of ``member`` (full name) in ``pool``.

        An override for ``pool`` takes precedence over an override for all pools.
        """
        if not self.items:
            return []
        if not self._by_member:
            for override in self.items:
                self._by_member.setdefault(override.member, []).append(override)
        ordered = self._by_member.get(member, ())
        found = {o.slot: o for o in ordered if not o.pool}
        found.update({o.slot: o for o in ordered if o.pool == pool})
        return list(found.values())

    def for_pool(self, pool: str) -> PoolOverrides:
        """Return the overrides' combined effect on ``pool``. A drain takes precedence over a forced state."""
        if not self.items:
            return NO_POOL_OVERRIDES
        if pool not in self._by_pool:
            self._by_pool[pool] = self._for_pool(pool)
        return self._by_pool[pool]

    def _for_pool(self, pool: str) -> PoolOverrides:
        forced: dict[str, ForcedState] = {}
        factors: dict[str, float] = {}
        for member in {o.member for o in self.items if o.pool in ("", pool)}:
            kinds = {o.kind: o for o in self.of(pool, member)}
            if "drain" in kinds:
                forced[member] = "drained"
            elif "up" in kinds or "down" in kinds:
                forced[member] = "up" if "up" in kinds else "down"
            if "weight" in kinds:
                factors[member] = kinds["weight"].factor
        return PoolOverrides(forced, factors)


NO_OVERRIDES: Final = Overrides()
