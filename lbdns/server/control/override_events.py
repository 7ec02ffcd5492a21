"""Override events: records an event whenever an override takes effect, is ended or expires."""

from __future__ import annotations

import logging
from typing import Final

from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm, Member, Pool
from lbdns.model.overrides import Override
from lbdns.model.shared_orders import SharedOrder
from lbdns.server.control.override_request import OverrideRequest
from lbdns.server.control.override_targets import in_pools
from lbdns.text.times import format_duration

_PLACED: Final = {"drain": "drained", "up": "forced up", "down": "forced down", "weight": "given weight {factor:g}"}
_ENDED: Final = {"drain": "no longer drained", "up": "no longer forced up", "down": "no longer forced down",
                 "weight": "no longer has weight {factor:g}"}  # fmt: skip
_NOUNS: Final = {"drain": "drain", "up": "forced state", "down": "forced state", "weight": "weight"}


class OverrideEvents:
    """Records events about overrides. Each event names the pool and the member."""

    def __init__(self, farm: Farm, events: EventLog) -> None:
        self._events = events
        self.use(farm)

    def use(self, farm: Farm) -> None:
        """Use ``farm`` for all further lookups of members."""
        self._farm = farm
        self._places: dict[str, list[tuple[Pool, Member]]] | None = None

    def pools(self, override: Override) -> list[str]:
        """Return the names of the pools to which an override applies."""
        return [pool.name for pool, _ in self._places_of(override)]

    def placed(self, override: Override, request: OverrideRequest, warning: str) -> None:
        """Record a new override. If ``warning`` is not empty, it explains why the pool cannot do without the member."""
        span = f" for {format_duration(override.until - override.since)}" if request.has_end else ""
        reason = f": {override.reason}" if override.reason else ""
        although = f" (although {warning})" if warning else ""
        what = f"{_PLACED[override.kind].format(factor=override.factor)} by {override.by}{span}{reason}{although}"
        self._record_for(override, what, logging.WARNING if warning else logging.INFO)

    def ended(self, override: Override, request: OverrideRequest, by: str) -> None:
        """Record that a user has ended an override."""
        reason = f", reason: {request.reason}" if request.reason else ""
        self._record_for(
            override, f"{_ended(override)}: {by} ended the {_NOUNS[override.kind]}{reason}{_origin(override, by)}"
        )

    def followed(self, override: Override) -> None:
        """Record that the followed collector, or another server that shares its overrides, has sent a new one."""
        self._record_for(override, override.text())

    def no_longer_followed(self, override: Override) -> None:
        """Record that the followed collector has ended an override."""
        self._record_for(override, f"{_ended(override)}, at {override.origin}{_origin(override)}")

    def ended_elsewhere(self, override: Override, order: SharedOrder) -> None:
        """Record that a user has ended a shared override at another server."""
        ended = f"{order.by} ended the {_NOUNS[override.kind]} at {order.server}"
        self._record_for(override, f"{_ended(override)}: {ended}{_origin(override, order.by)}")

    def lost(self, order: SharedOrder, newer: SharedOrder) -> None:
        """Record that an order, which was given while this server was cut off, does not count."""
        slot, member, pool = order.place
        what = f"the {'end of a ' if order.override is None else ''}{slot} that {order.by} ordered at {order.server}"
        why = f"{newer.by} has given a newer order at {newer.server}"
        where = f" in pool {pool}" if pool else ""
        self.record(f"{member}{where}: {what} does not count: {why}", level=logging.WARNING, member=member)

    def expired(self, override: Override) -> None:
        """Record that an override has expired."""
        span = format_duration(override.until - override.since)
        self._record_for(override, f"{_ended(override)}: the override expired after {span}{_origin(override)}")

    def record(self, text: str, *, level: int = logging.INFO, pool: str = "", member: str = "") -> None:
        self._events.record("override", text, level=level, pool=pool, member=member, logger="lbdns.orders")

    def _record_for(self, override: Override, what: str, level: int = logging.INFO) -> None:
        places = self._places_of(override)
        if len(places) == 1:
            pool, member = places[0]
            self.record(f"pool {pool.name}: {member.name} {what}", level=level, pool=pool.name, member=member.name)
        else:
            where = f"{in_pools(pool.name for pool, _ in places)}: " if places else ""
            self.record(f"{where}{override.member} {what}", level=level, member=override.member)

    def _places_of(self, override: Override) -> list[tuple[Pool, Member]]:
        if self._places is None:  # made on first use, because most servers of large farms rarely have an override
            self._places = {}
            for pool in self._farm.pools:
                for member in pool.members:
                    self._places.setdefault(member.full_name, []).append((pool, member))
        return [place for place in self._places.get(override.member, ()) if override.pool in ("", place[0].name)]


def _ended(override: Override) -> str:
    return _ENDED[override.kind].format(factor=override.factor)


def _origin(override: Override, ended_by: str = "") -> str:
    """Return who set an override and why, in parentheses; the user is left out if the same user ended the override."""
    if ended_by and override.by == ended_by:
        return f" (its reason: {override.reason})" if override.reason else ""
    reason = f": {override.reason}" if override.reason else ""
    return f" (set by {override.by}{reason})" if override.by else ""
