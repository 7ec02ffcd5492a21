"""Override targets: finds the members that a request names, and checks that their pools can spare them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.choosing.guard_rails.guard_rails import NO_GUARD, Guard
from lbdns.model.farm import Farm, Member, Pool
from lbdns.model.joined_members import why_not_joinable
from lbdns.model.liveness import State, state_of
from lbdns.model.overrides import ForcedState, Override, Overrides
from lbdns.model.snapshot import Snapshot
from lbdns.planning.state_reason import reason
from lbdns.server.control.override_request import OverrideRequest
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import LbdnsError, UnknownNameError

SHOWN: Final = 8  # members or overrides that a message lists
NEAR: Final = 2000  # known names compared with an unknown one: comparing more would delay queries

#: Pool name -> the guard of each member, in the pool's order; empty if unknown
GuardsOf = Callable[[str], Sequence[Guard]]


@dataclass(frozen=True, slots=True)
class OverrideTargets:
    """The members (by full name) and the pools that a request affects.

    ``pools`` is empty if the members are no longer configured but still have overrides, or if they have not joined yet.
    """

    full_names: tuple[str, ...]
    pools: tuple[Pool, ...]


def full_form(name: str) -> str:
    """Convert a name to the form of full names: lower case, without a final dot."""
    return name.lower().removesuffix(".")


def find_targets(farm: Farm, request: OverrideRequest) -> OverrideTargets:
    """Return the targets of a request. A short name may match members with the same addresses in several zones.

    Raises UnknownNameError, whose message suggests the most similar known name.
    """
    pools = farm.pools if not request.pool else [pool for pool in farm.pools if pool.name == request.pool]
    if not pools:
        near = nearest(request.pool, (pool.name for pool in farm.pools))
        raise UnknownNameError(f"pool: {request.pool!r} does not exist{near}")
    wanted = full_form(request.member)
    known = [member for pool in pools for member in pool.members]
    found = [m for m in known if m.full_name == wanted] or [m for m in known if m.name == wanted]
    if not found and request.ahead:
        return OverrideTargets(_joinable(farm, pools, wanted), ())
    if not found:
        raise UnknownNameError(_unknown(farm, request, known))
    names = tuple(dict.fromkeys(member.full_name for member in found))
    if len({member.addresses for member in found}) > 1:
        raise UnknownNameError(
            f"member: {request.member!r} is a different host in each zone ({', '.join(names)}); use the full name"
        )
    return OverrideTargets(names, tuple(pool for pool in pools if any(m.full_name in names for m in pool.members)))


def _joinable(farm: Farm, pools: Iterable[Pool], wanted: str) -> tuple[str, ...]:
    """Return the full names under which a host named ``wanted`` may join the pools.

    Raises UnknownNameError if there is no such host.
    """
    found: dict[str, None] = {}
    reasons = []
    for pool in pools:
        name = wanted.removesuffix(f".{pool.zone.name}")
        if why := why_not_joinable(pool, pool.zone, farm.pools, name):
            reasons.append(why)
        else:
            found[f"{name}.{pool.zone.name}" if pool.zone.name else name] = None
    if not found:
        raise UnknownNameError(
            f"member: no pool has {wanted!r}, and it cannot join any of them: {join_some(reasons, '; ')}"
        )
    return tuple(found)


def find_forgotten_targets(overrides: Overrides, request: OverrideRequest) -> OverrideTargets | None:
    """Return the targets of a request if its member or pool is not configured but still has overrides, else None."""
    wanted = full_form(request.member)
    known = any(o.member == wanted and request.pool in ("", o.pool) for o in overrides.items)
    return OverrideTargets((wanted,), ()) if known else None


def _unknown(farm: Farm, request: OverrideRequest, known: Sequence[Member]) -> str:
    where = f"pool {request.pool} has no member" if request.pool else "member: no pool has"
    wanted = full_form(request.member)
    elsewhere = [p.name for p in farm.pools if any(wanted in (m.name, m.full_name) for m in p.members)]
    if elsewhere:
        return f"{where} {request.member!r}; this member is in {in_pools(elsewhere)}"
    near = nearest(wanted, [*{m.name for m in known[:NEAR]}, *{m.full_name for m in known[:NEAR]}])
    if near.startswith("."):
        return f"{where} {request.member!r}{near}"
    return f"{where} {request.member!r}; known: {join_some(dict.fromkeys(m.name for m in known))}"


def in_pools(names: Iterable[str]) -> str:
    found = list(names)
    return f"pool{'s' if len(found) > 1 else ''} {join_some(found)}"


def join_some(texts: Iterable[str], between: str = ", ") -> str:
    """Join the first SHOWN texts. If there are more, append the number of omitted texts."""
    found = list(texts)
    more = f"{between}and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return between.join(found[:SHOWN]) + more


def why_not_spare(
    targets: OverrideTargets,
    before: Overrides,
    after: Overrides,
    farm: Farm,
    snapshot: Snapshot,
    guards: GuardsOf,
    now: float,
) -> str:
    """Return the reason why a pool cannot do without the targets, or an empty string if every pool can.

    A pool cannot do without its targets if the overrides in ``after`` would leave the pool without a usable member, or
    would drain all its members. ``now`` is in monotonic seconds.
    """
    stale_after = farm.config.collector.stale_after
    for pool in targets.pools:
        known = guards(pool.name)
        if len(known) != len(pool.members):  # a reload is under way
            known = (NO_GUARD,) * len(pool.members)
        old, new = (_OverriddenPool(pool, each, snapshot, known, stale_after, now) for each in (before, after))
        name = next(member.name for member in pool.members if member.full_name in targets.full_names)
        others = new.others(targets.full_names)
        why = f"the others: {others}" if others else "the pool has no other member"
        if old.usable() and not new.usable():
            return f"{name} is the last usable member of pool {pool.name} ({why})"
        if new.all_drained() and not old.all_drained():
            return (
                f"{name} is the last member of pool {pool.name} that is not drained ({why}); "
                "if all members are drained, lbdns selects from all of them"
            )
    return ""


@dataclass(frozen=True, slots=True)
class _OverriddenPool:
    pool: Pool
    overrides: Overrides
    snapshot: Snapshot
    guards: Sequence[Guard]
    stale_after: float
    now: float

    def usable(self) -> bool:
        """Return whether any member of the pool can be selected.

        A quarantined member counts only if it is forced up.
        """
        return any(
            self._state(member) == "usable" and (self._forced_state(member) == "up" or not guard.quarantined)
            for member, guard in zip(self.pool.members, self.guards, strict=True)
        )

    def all_drained(self) -> bool:
        return all(self._forced_state(member) == "drained" for member in self.pool.members)

    def others(self, but: Sequence[str]) -> str:
        """Return the reasons why the pool's other members are not selected, such as ``frodo: no report for 12 s``."""
        members = zip(self.pool.members, self.guards, strict=True)
        return join_some((self._why(member, guard) for member, guard in members if member.full_name not in but), "; ")

    def _why(self, member: Member, guard: Guard) -> str:
        reading = self.snapshot.readings.get(member.full_name)
        state = self._state(member)
        in_force = self.overrides.of(self.pool.name, member.full_name)
        why = reason(state, reading, in_force, self.now, self.pool.name)
        if state == "usable":
            why = guard.text(self.now) or why
        return f"{member.name}: {why or state}"

    def _state(self, member: Member) -> State:
        reading = self.snapshot.readings.get(member.full_name)
        return state_of(reading, self.now, self.stale_after, self._forced_state(member), self.pool.name)

    def _forced_state(self, member: Member) -> ForcedState:
        return self.overrides.for_pool(self.pool.name).forced_state(member.full_name)


def overrides_to_end(targets: OverrideTargets, request: OverrideRequest, overrides: Overrides) -> list[Override]:
    """Return the overrides in force that ``request`` would end.

    A request without a pool also ends overrides that apply to a single pool. Raises LbdnsError if the request ends
    no override; the message lists the member's overrides in force.
    """
    ours = [o for o in overrides.items if o.member in targets.full_names]
    slot = [o for o in ours if o.slot == request.slot]
    found = [o for o in slot if not request.pool or o.pool == request.pool]
    if found:
        return found
    names = " and ".join(targets.full_names)
    if everywhere := [o for o in slot if not o.pool]:
        raise LbdnsError(
            f"{names}: {everywhere[0].text()!r} applies to every pool and can't be ended for "
            f"pool {request.pool} alone. To end it everywhere, omit --pool; then set it again for the "
            "pools that must keep it"
        )
    states = {"drain": "not drained", "force": "not forced up or down", "weight": "not weighted"}
    where = f" in pool {request.pool}" if request.pool else ""
    there = join_some((f"{o.text()}{f' (pool {o.pool})' if o.pool else ''}" for o in ours), "; ")
    raise LbdnsError(f"{names} is {states[request.slot]}{where}; overrides in force: {there or 'none'}")
