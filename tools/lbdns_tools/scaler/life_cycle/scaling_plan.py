"""A pure function that decides which servers to start, create, drain and delete, so that the wanted number of servers
is in service."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.text import counts
from lbdns_tools.scaler.life_cycle.server_record import ServerRecord
from lbdns_tools.scaler.life_cycle.server_state import ON_THE_WAY, TRANSITIONS, ServerState

S = ServerState
_NUMBER: Final = re.compile(r"(\d+)\Z")


@dataclass(frozen=True, slots=True)
class FleetLimits:
    """Limits on the number of servers. A quota counts all servers, whether in service or not."""

    spares: int = 0  # stopped servers that are kept
    quota: int | None = None  # servers that may exist at most; None: no limit is known


@dataclass(frozen=True, slots=True)
class Change:
    """One change to the fleet. ``before`` is None for a new server."""

    before: ServerRecord | None
    after: ServerRecord

    def __str__(self) -> str:
        return f"{self.after.name}: {self.after.state.value} ({self.after.reason})"


def natural_key(name: str) -> tuple[str, int]:
    """Return a sort key that puts web-9 before web-10."""
    match = _NUMBER.search(name)
    return (name[: match.start()], int(match[1])) if match else (name, -1)


def new_names(prefix: str, taken: Iterable[str], highest: int, count: int) -> list[str]:
    """Return ``count`` new names, numbered above ``highest`` and above all ``taken`` names."""
    numbers = [number for name in taken for start, number in (natural_key(name),) if start == prefix]
    first = max([highest, *numbers]) + 1
    return [f"{prefix}{number}" for number in range(first, first + count)]


def scaling_plan(
    records: Sequence[ServerRecord],
    wanted: int,
    now: float,
    reason: str,
    limits: FleetLimits,
    prefix: str,
    highest: int = 0,
    remove_first: Sequence[str] = (),
    held: frozenset[str] = frozenset(),
) -> list[Change]:
    """Return the changes after which ``wanted`` servers are in service or on their way.

    ``held`` are servers that an operator keeps out of service; they are not counted and not removed. ``highest`` is the
    highest number that any server has had, since names are not used twice. ``remove_first`` comes from the policy.
    """
    counted = [record for record in records if record.name not in held]
    present = [record for record in counted if record.state is S.IN_SERVICE or record.state in ON_THE_WAY]
    lacking = wanted - len(present)
    if lacking > 0:
        changes = _grow(records, counted, lacking, now, reason, limits, prefix, highest)
    else:
        changes = _shrink(present, counted, -lacking, now, reason, limits, remove_first)
    touched = {change.before.name for change in changes if change.before}
    return changes + _surplus_spares([r for r in counted if r.name not in touched], changes, now, limits)


def _grow(
    records: Sequence[ServerRecord],
    counted: Sequence[ServerRecord],
    lacking: int,
    now: float,
    reason: str,
    limits: FleetLimits,
    prefix: str,
    highest: int,
) -> list[Change]:
    """Return the changes that add servers. Draining servers are used first, because they start fastest; then spares;
    then new servers, if the quota permits."""
    draining = sorted((r for r in counted if r.state is S.DRAINING), key=lambda record: -record.since)[:lacking]
    changes = [Change(record, record.to(S.JOINING, now, reason)) for record in draining]
    spares = sorted((r for r in counted if r.state is S.STOPPED), key=lambda record: natural_key(record.name))
    spares = spares[: lacking - len(changes)]
    changes += [Change(record, record.to(S.STARTING, now, reason)) for record in spares]
    room = lacking if limits.quota is None else max(0, limits.quota - len(records))
    names = new_names(prefix, (r.name for r in records), highest, min(room, lacking - len(changes)))
    return changes + [Change(None, ServerRecord(name, S.WANTED, now, reason=reason)) for name in names]


def _shrink(
    present: Sequence[ServerRecord],
    counted: Sequence[ServerRecord],
    surplus: int,
    now: float,
    reason: str,
    limits: FleetLimits,
    remove_first: Sequence[str],
) -> list[Change]:
    """Remove first the servers not yet in service, then those that the policy names, then the highest numbers."""
    order: Mapping[str, int] = {name: place for place, name in enumerate(remove_first)}
    leaving = sorted(present, key=lambda record: natural_key(record.name), reverse=True)
    leaving.sort(key=lambda record: (record.state is S.IN_SERVICE, order.get(record.name, len(order))))
    leaving = leaving[:surplus]
    room = limits.spares - sum(
        r.state in (S.STOPPED, S.STOPPING) or (r.state is S.DRAINING and r.keep) for r in counted
    )
    changes = []
    for record in leaving:
        if S.DRAINING in TRANSITIONS[record.state]:
            keep = room > 0
            room -= keep
            changes.append(Change(record, record.to(S.DRAINING, now, reason, keep=keep)))
        else:
            changes.append(Change(record, record.to(S.DELETING, now, f"no longer needed: {reason}")))
    return changes


def _surplus_spares(
    rest: Sequence[ServerRecord], changes: Sequence[Change], now: float, limits: FleetLimits
) -> list[Change]:
    """If more servers are stopped than the farm may keep, return the changes that delete the newest of them."""
    coming = sum(change.after.keep for change in changes)
    spares = sorted((r for r in rest if r.state is S.STOPPED), key=lambda record: natural_key(record.name))
    surplus = spares[max(0, limits.spares - coming) :]
    return [
        Change(r, r.to(S.DELETING, now, f"the farm keeps at most {counts.counted(limits.spares, 'spare')}"))
        for r in surplus
    ]
