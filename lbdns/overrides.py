"""What people have ordered against what reports say: members drained, forced up or down, weighed. Pure: time is an
argument; who orders and where it is kept is ``server/orders``' affair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from lbdns.liveness import Forced

OverrideKind = Literal["drain", "up", "down", "weight"]
KINDS: Final[tuple[OverrideKind, ...]] = ("drain", "up", "down", "weight")
#: Of one slot a member has one override at a time: a new one takes the place of the old.
SLOTS: Final[Mapping[OverrideKind, str]] = MappingProxyType(
    {"drain": "drain", "up": "force", "down": "force", "weight": "weight"}
)
LEAST_FACTOR: Final = 0.01
GREATEST_FACTOR: Final = 100.0
MAX_REASON: Final = 200  # characters
_NO_FACTORS: Final[Mapping[str, float]] = MappingProxyType({})
_NO_FORCE: Final[Mapping[str, Forced]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Override:
    """One order in force. ``member`` is a full name; times are Unix seconds."""

    kind: OverrideKind
    member: str
    pool: str = ""  # empty: every pool that has the member
    factor: float = 1.0  # of a weight: times its capacity, and its score where members are compared by that
    by: str = ""  # the user who ordered it
    reason: str = ""
    since: float = 0.0
    until: float = math.inf

    @property
    def slot(self) -> str:
        return SLOTS[self.kind]

    @property
    def place(self) -> tuple[str, str, str]:
        """What there is only one override for."""
        return self.slot, self.member, self.pool

    def concerns(self, pool: str, member: str) -> bool:
        return self.member == member and self.pool in ("", pool)

    def text(self, until: str = "") -> str:
        """Such as ``drained by root: new kernel``; ``until`` is put in as the words for that time."""
        what = {"drain": "drained", "up": "forced up", "down": "forced down", "weight": f"weight {self.factor:g}"}
        by = f" by {self.by}" if self.by else ""
        return f"{what[self.kind]}{until}{by}{': ' + self.reason if self.reason else ''}"

    def document(self) -> dict[str, Any]:
        """As the HTTP interface, the file of overrides and a successor are told it."""
        return {
            "kind": self.kind,
            "member": self.member,
            "pool": self.pool,
            "factor": self.factor,
            "by": self.by,
            "reason": self.reason,
            "since": self.since,
            "until": self.until if math.isfinite(self.until) else None,
        }


def read_override(value: Any) -> Override:
    """The override of a ``document``. Raises ValueError if it is none."""
    try:
        kind = next((known for known in KINDS if known == value["kind"]), None)
        until = value["until"]
        texts = [value[key] for key in ("member", "pool", "by", "reason")]
        factor, since = float(value["factor"]), float(value["since"])
        ends = math.inf if until is None else float(until)
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise ValueError(f"no override: {error!r}") from None
    member, pool, by, reason = texts
    if kind is None or not all(isinstance(text, str) for text in texts) or not member:
        raise ValueError(f"no override: {value!r}")
    if not LEAST_FACTOR <= factor <= GREATEST_FACTOR or not math.isfinite(since) or math.isnan(ends):
        raise ValueError(f"no override: factor, since or until of {value!r}")
    return Override(kind, member, pool, factor, by, reason, since, ends)


@dataclass(frozen=True, slots=True)
class Steering:
    """What the overrides come to for one pool, by full name."""

    forced: Mapping[str, Forced] = field(default_factory=lambda: _NO_FORCE)
    factors: Mapping[str, float] = field(default_factory=lambda: _NO_FACTORS)

    def of(self, member: str) -> Forced:
        return self.forced.get(member, "")


NO_STEERING: Final = Steering()


@dataclass(frozen=True, slots=True)
class Overrides:
    """All that are in force; another object with every change."""

    items: tuple[Override, ...] = ()
    # Found once: with every report all pools are gone through, and with every page all members
    _by_member: dict[str, list[Override]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _steerings: dict[str, Steering] = field(default_factory=dict, init=False, repr=False, compare=False)

    def put(self, override: Override) -> Overrides:
        """With ``override`` in the place of the one there was in its slot."""
        return Overrides((*(o for o in self.items if o.place != override.place), override))

    def without(self, gone: Iterable[Override]) -> Overrides:
        gone = set(gone)
        return Overrides(tuple(o for o in self.items if o not in gone))

    def ended(self, now: float) -> list[Override]:
        """Those whose time is over at ``now`` (Unix seconds)."""
        return [o for o in self.items if o.until <= now]

    @property
    def next_end(self) -> float:
        """When the next one ends, Unix seconds; inf if none does."""
        return min((o.until for o in self.items), default=math.inf)

    def of(self, pool: str, member: str) -> list[Override]:
        """Those that concern one member (full name) of one pool; what is said of the pool goes before what is said of
        every pool."""
        if not self.items:
            return []
        if not self._by_member:
            for override in self.items:
                self._by_member.setdefault(override.member, []).append(override)
        ordered = self._by_member.get(member, ())
        found = {o.slot: o for o in ordered if not o.pool}
        found.update({o.slot: o for o in ordered if o.pool == pool})
        return list(found.values())

    def steering(self, pool: str) -> Steering:
        """What they come to for a pool. A drain counts before force."""
        if not self.items:
            return NO_STEERING
        if pool not in self._steerings:
            self._steerings[pool] = self._steering(pool)
        return self._steerings[pool]

    def _steering(self, pool: str) -> Steering:
        forced: dict[str, Forced] = {}
        factors: dict[str, float] = {}
        for member in {o.member for o in self.items if o.pool in ("", pool)}:
            kinds = {o.kind: o for o in self.of(pool, member)}
            if "drain" in kinds:
                forced[member] = "drained"
            elif "up" in kinds or "down" in kinds:
                forced[member] = "up" if "up" in kinds else "down"
            if "weight" in kinds:
                factors[member] = kinds["weight"].factor
        return Steering(forced, factors)


NO_OVERRIDES: Final = Overrides()
