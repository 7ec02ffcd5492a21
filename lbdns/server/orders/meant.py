"""Whom an order means, and whether the pools can do without them. Pure: times are arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.errors import LbdnsError, UnknownNameError
from lbdns.explanation import reason
from lbdns.farm import Farm, Member, Pool
from lbdns.liveness import State, state_of
from lbdns.overrides import Override, Overrides
from lbdns.policies.guard_rails.guards import NO_GUARD, Guard
from lbdns.server.orders.wish import Wish
from lbdns.snapshot import Snapshot
from lbdns.toml_table import nearest

SHOWN: Final = 8  # members, or orders, that an error names one by one
NEAR: Final = 2000  # names that are compared with one that there isn't: more would hold up queries

#: What keeps each member of a pool from its share, by the pool's name and in its order; empty where not known
GuardsOf = Callable[[str], Sequence[Guard]]


@dataclass(frozen=True, slots=True)
class Meant:
    """The machines that an order is about, and the pools that it is about. No pools: only orders of before know them,
    the configuration doesn't any more."""

    full_names: tuple[str, ...]
    pools: tuple[Pool, ...]


def full_form(name: str) -> str:
    """A name as full names are written."""
    return name.lower().removesuffix(".")


def find(farm: Farm, wish: Wish) -> Meant:
    """Whom the wish means. A machine that several zones have under one name and address is one machine.

    Raises UnknownNameError.
    """
    pools = farm.pools if not wish.pool else [pool for pool in farm.pools if pool.name == wish.pool]
    if not pools:
        raise UnknownNameError(f"pool: there is no {wish.pool!r}{nearest(wish.pool, (p.name for p in farm.pools))}")
    wanted = full_form(wish.member)
    known = [member for pool in pools for member in pool.members]
    found = [m for m in known if m.full_name == wanted] or [m for m in known if m.name == wanted]
    if not found:
        raise UnknownNameError(_unknown(farm, wish, known))
    names = tuple(dict.fromkeys(member.full_name for member in found))
    if len({member.addresses for member in found}) > 1:
        raise UnknownNameError(
            f"member: {wish.member!r} is another machine in each zone: {', '.join(names)}; name it in full"
        )
    return Meant(names, tuple(pool for pool in pools if any(m.full_name in names for m in pool.members)))


def find_forgotten(overrides: Overrides, wish: Wish) -> Meant | None:
    """Whom the wish means if only orders in force know it: its full name, and its pool if that is gone."""
    wanted = full_form(wish.member)
    known = any(o.member == wanted and wish.pool in ("", o.pool) for o in overrides.items)
    return Meant((wanted,), ()) if known else None


def _unknown(farm: Farm, wish: Wish, known: Sequence[Member]) -> str:
    where = f"pool {wish.pool} has no member" if wish.pool else "member: no pool has"
    wanted = full_form(wish.member)
    elsewhere = [p.name for p in farm.pools if any(wanted in (m.name, m.full_name) for m in p.members)]
    if elsewhere:
        return f"{where} {wish.member!r}; it is in {in_pools(elsewhere)}"
    near = nearest(wanted, [*{m.name for m in known[:NEAR]}, *{m.full_name for m in known[:NEAR]}])
    if near.startswith("."):
        return f"{where} {wish.member!r}{near}"
    return f"{where} {wish.member!r}; known: {listed(dict.fromkeys(m.name for m in known))}"


def in_pools(names: Iterable[str]) -> str:
    found = list(names)
    return f"pool{'s' if len(found) > 1 else ''} {listed(found)}"


def listed(texts: Iterable[str], between: str = ", ") -> str:
    """Not more of them than somebody reads."""
    found = list(texts)
    more = f"{between}and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return between.join(found[:SHOWN]) + more


def cant_spare(
    meant: Meant, before: Overrides, after: Overrides, farm: Farm, snapshot: Snapshot, guards: GuardsOf, now: float
) -> str:
    """Why a pool can't do without them: ``after`` takes it the last usable member, or leaves it with all drained, and
    ``before`` did not. Empty if all can. ``now`` is in monotonic seconds."""
    stale_after = farm.config.collector.stale_after
    for pool in meant.pools:
        known = guards(pool.name)
        if len(known) != len(pool.members):  # a reload is under way
            known = (NO_GUARD,) * len(pool.members)
        left = _Left(pool, snapshot, known, stale_after, now)
        name = next(member.name for member in pool.members if member.full_name in meant.full_names)
        others = left.others(meant.full_names, after)
        why = f"the others: {others}" if others else "it has no other"
        if left.usable(before) and not left.usable(after):
            return f"{name} is the last usable member of pool {pool.name} ({why})"
        if left.all_drained(after) and not left.all_drained(before):
            return (
                f"{name} is the last member of pool {pool.name} that is not drained ({why}); "
                "with all of them drained, all are handed out"
            )
    return ""


@dataclass(frozen=True, slots=True)
class _Left:
    """What some orders leave of a pool."""

    pool: Pool
    snapshot: Snapshot
    guards: Sequence[Guard]
    stale_after: float
    now: float

    def usable(self, overrides: Overrides) -> bool:
        """Whether there is anybody to hand out. Who is set aside serves nothing as far as is known."""
        steering = overrides.steering(self.pool.name)
        return any(
            self._state(member, overrides) == "usable"
            and (steering.of(member.full_name) == "up" or not guard.quarantined)
            for member, guard in zip(self.pool.members, self.guards, strict=True)
        )

    def all_drained(self, overrides: Overrides) -> bool:
        steering = overrides.steering(self.pool.name)
        return all(steering.of(member.full_name) == "drained" for member in self.pool.members)

    def others(self, but: Sequence[str], overrides: Overrides) -> str:
        """Why nobody else is handed out, such as ``frodo: no report for 12 s``."""
        return listed(
            (self._why(i, overrides) for i, m in enumerate(self.pool.members) if m.full_name not in but), "; "
        )

    def _why(self, index: int, overrides: Overrides) -> str:
        member = self.pool.members[index]
        reading = self.snapshot.readings.get(member.full_name)
        state = self._state(member, overrides)
        why = reason(state, reading, overrides.of(self.pool.name, member.full_name), self.now)
        if state == "usable":
            why = self.guards[index].text(self.now) or why
        return f"{member.name}: {why or state}"

    def _state(self, member: Member, overrides: Overrides) -> State:
        reading = self.snapshot.readings.get(member.full_name)
        return state_of(reading, self.now, self.stale_after, overrides.steering(self.pool.name).of(member.full_name))


def ended(meant: Meant, wish: Wish, overrides: Overrides) -> list[Override]:
    """The orders in force that the wish ends. Without a pool: those for single pools too. Raises LbdnsError if there
    is none, and says what there is."""
    ours = [o for o in overrides.items if o.member in meant.full_names]
    slot = [o for o in ours if o.slot == wish.slot]
    found = [o for o in slot if not wish.pool or o.pool == wish.pool]
    if found:
        return found
    who = " and ".join(meant.full_names)
    if everywhere := [o for o in slot if not o.pool]:
        raise LbdnsError(
            f"{who}: {everywhere[0].text()!r} is for every pool and can't be ended for pool {wish.pool} alone; end it "
            "without --pool, and order it anew for the pools where it has to stay"
        )
    what = {"drain": "not drained", "force": "not forced up or down", "weight": "of no other weight than 1"}[wish.slot]
    where = f" in pool {wish.pool}" if wish.pool else ""
    there = listed((f"{o.text()}{f' (pool {o.pool})' if o.pool else ''}" for o in ours), "; ")
    raise LbdnsError(f"{who} is {what}{where}; in force: {there or 'nothing'}")
