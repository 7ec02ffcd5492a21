"""Creates the plan cursors of pools, and carries their counts over from the cursors in use before a reload.

A pool has one cursor for each policy. If the pool has sites, this cursor is for clients in no network, and ``others``
contains the cursors for clients that use the sites in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lbdns.answering.member_lists import ListCursor
from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.plane import NativeListCursor, NativePlanCursor
from lbdns.model.farm import Farm, Pool
from lbdns.model.pool_sites import same_orders
from lbdns.policies.plan import Plan

if TYPE_CHECKING:
    import lbdns_native

#: By pool and policy
PlanCursors = Mapping[tuple[str, str], PlanCursor]


def pool_cursor(pool: Pool, native: lbdns_native.AnswerTable | None, numbers: Iterator[int]) -> PlanCursor:
    """Return a cursor for one policy of ``pool``.

    ``native`` is the native part of the answer table, or None on the Python plane. ``numbers`` yields the numbers of
    new cursors.
    """
    if pool.sites:
        found = [_new_cursor(pool, native, next(numbers)) for _ in pool.sites.orders]
        for cursor, order in zip(found, pool.sites.orders, strict=True):
            # Until the first plan, answers name the members of the nearest site
            cursor.set_plan(Plan(tuple(pool.sites.members[order[0]])))
        found[0].others = tuple(found[1:])
        return found[0]
    cursor = _new_cursor(pool, native, next(numbers))
    if pool.members and pool.backup_members:  # until the first plan, answers name only the pool's own members
        cursor.set_plan(Plan(tuple(range(len(pool.members)))))
    return cursor


def _new_cursor(pool: Pool, native: lbdns_native.AnswerTable | None, number: int) -> PlanCursor:
    members, window = len(pool.selectable), pool.config.coherence
    if (answers := min(pool.config.answers, members)) > 1:
        if native:
            return NativeListCursor(members, native, window, answers)
        return ListCursor(members, number, window, answers)
    return NativePlanCursor(members, native, window) if native else PlanCursor(members, number, window)


def order_cursors(cursor: PlanCursor) -> tuple[PlanCursor, ...]:
    """Return the cursors for all orders of the sites; the first is ``cursor``, and the only one without sites."""
    return (cursor, *cursor.others)


def all_totals(cursor: PlanCursor) -> list[int]:
    """Return how many times ``cursor`` and the cursors for other orders have selected each member since the start."""
    return [sum(totals) for totals in zip(*(part.totals() for part in order_cursors(cursor)), strict=True)]


def take_over_counts(cursors: PlanCursors, farm: Farm, old_cursors: PlanCursors, old_farm: Farm) -> None:
    """Carry over the counts and rotations of ``old_cursors``. Call this function before any use of ``cursors``."""
    pools = {pool.name: pool for pool in farm.pools}
    for old in old_farm.pools:
        if (pool := pools.get(old.name)) is None:
            continue
        places = {member.full_name: i for i, member in enumerate(pool.selectable)}
        mapping = [places.get(member.full_name) for member in old.selectable]
        orders = same_orders(old.sites, pool.sites)
        for policy in set(old.owners.values()):
            cursor, before = cursors.get((pool.name, policy)), old_cursors.get((pool.name, policy))
            if cursor and before:
                for part, order in zip(order_cursors(before), orders, strict=True):
                    order_cursors(cursor)[order or 0].take_over(part, mapping)
