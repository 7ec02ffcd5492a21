"""The override manager: puts overrides into force, stores them, and ends them on request or when they expire."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import CheckedConfiguration
from lbdns.model.farm import Farm
from lbdns.model.overrides import Override, Overrides, merge_overrides
from lbdns.model.shared_orders import NO_ORDERS, SharedOrder, SharedOrders
from lbdns.process.apply_configuration import PreparedChange
from lbdns.server.control.override_events import OverrideEvents
from lbdns.server.control.override_file import FILE_NAME, OverrideStore
from lbdns.server.control.override_request import OverrideRequest
from lbdns.server.control.override_sharing import OverrideSharing
from lbdns.server.control.override_targets import (
    OverrideTargets,
    find_forgotten_targets,
    find_targets,
    join_some,
    overrides_to_end,
    why_not_spare,
)
from lbdns.server.dns_service import Answerer
from lbdns_shared.errors import LastMemberError, LbdnsError, UnknownNameError

MAX_OVERRIDES: Final = 10_000  # far more than anyone needs; each costs time with every report
CHECK_PERIOD: Final = 30.0  # s between checks of the wall clock, which may jump, and between attempts to write the file
HAND_OVER_WAIT: Final = 0.1  # s between attempts to apply orders of other servers while a successor takes over
MIN_TIMER_WAIT: Final = 0.01  # s; the wall clock and the event loop's clock never agree exactly


class OverrideManager:
    """Manages operators' overrides: passes them to the answerer and stores them on disk.

    The caller must first call ``restore`` or ``inherit``, then ``begin`` and, at the end, ``stop``.
    """

    def __init__(
        self,
        farm: Farm,
        answerer: Answerer,
        events: EventLog,
        clock: Callable[[], float] = time.time,
        sharing: OverrideSharing | None = None,
    ) -> None:
        """``clock`` returns the Unix time in seconds. ``sharing`` is used if the configuration turns it on."""
        #: Held while a successor receives the overrides: they must not change then.
        self.handing_over = asyncio.Lock()
        self._farm, self._answerer, self._clock = farm, answerer, clock
        self.events = OverrideEvents(farm, events)
        self.store = OverrideStore(farm.config.server.state_dir / FILE_NAME, self.events)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._begun = asyncio.Event()  # set by ``begin``, and by ``stop``
        self._followed: Sequence[Override] | None = None  # None until the followed collector has sent its overrides
        self._over = False
        self._sharing = sharing
        self._lost: list[SharedOrder] = []  # orders of which no event has been recorded yet
        if sharing:
            sharing.on_orders = self._orders_changed

    @property
    def sharing(self) -> OverrideSharing | None:
        """Return the part that shares the overrides with other servers, or None if this server does not share them."""
        return self._sharing if self._sharing and self._farm.config.bus.share_overrides else None

    def sharing_document(self) -> dict[str, Any] | None:
        """Return the state of the shared overrides for status documents, or None if this server shares none."""
        return self.sharing.document() if self.sharing else None

    @property
    def orders(self) -> SharedOrders:
        """Return the orders that all servers share; none if this server does not share them."""
        return self.sharing.orders if self.sharing else NO_ORDERS

    @property
    def overrides(self) -> Overrides:
        return self._answerer.planner.overrides

    async def restore(self) -> None:
        """Reinstate the overrides from the last run of the server. Call this method before any query is answered."""
        found, orders = await self.store.load()
        if not self._farm.config.collector.connect:
            found = Overrides(found.own)
        found = self._shared(found, orders)
        if found.items:
            some = join_some((f"{each.member} {each.text()}" for each in found.items), "; ")
            self.events.record(f"overrides still in force after the restart: {some}")
            self._answerer.override(found)
            self._end_expired()

    def inherit(self, overrides: Overrides, orders: SharedOrders) -> None:
        """Use the overrides and the shared orders of the server that this server replaces."""
        self._answerer.override(self._shared(overrides, orders))

    def _shared(self, overrides: Overrides, orders: SharedOrders) -> Overrides:
        """Return the overrides in force, given those in force before and the shared orders of that time."""
        if self.sharing is None:
            own = (replace(override, server="") for override in overrides.own)
            return Overrides((*own, *overrides.followed))
        self.sharing.adopt(orders, overrides.own)
        return merge_overrides(self.orders.in_force(self._clock()).items, overrides.followed)

    def begin(self) -> None:
        """Start carrying out requests. After this call, no other process may write the override file."""
        if self.sharing:
            self.sharing.start(self._farm.config.bus.override_copies)
        self._begun.set()
        self._check()

    def follow(self, overrides: Sequence[Override]) -> None:
        """Apply the followed collector's overrides, which replace those that it sent before.

        This server's own override of the same kind for the same member takes precedence. Overrides that all servers
        share are ignored, because they arrive without the collector's help.
        """
        now = self._clock()
        before = set(self._followed_in_force())
        overrides = [override for override in overrides if not (self.sharing and override.server)]
        self._followed = [override for override in overrides if override.until > now]
        for override in before.difference(self._followed):
            self.events.no_longer_followed(override)
        for override in self._followed:
            if override not in before:
                self.events.followed(override)
        if before != set(self._followed):
            self._change_to(self.overrides)

    def _followed_in_force(self) -> Sequence[Override]:
        return self.overrides.followed if self._followed is None else self._followed

    async def prepare(self, new: CheckedConfiguration) -> PreparedChange:
        """Return a change that switches to the farm and the state directory of ``new``. The overrides stay in force."""
        was_sharing = self.sharing

        def commit() -> None:
            self._farm = new.farm
            self.events.use(new.farm)
            self.store.path = new.farm.config.server.state_dir / FILE_NAME
            if self._sharing:
                self._sharing.use_keys(new.keys)
            if was_sharing is not self.sharing:
                self._answerer.override(self._shared(self.overrides, NO_ORDERS))
            self._check()

        async def finish() -> None:
            if was_sharing and not self.sharing:
                await was_sharing.stop()
            elif self.sharing and self._begun.is_set():
                self.sharing.start(self._farm.config.bus.override_copies)

        return PreparedChange("overrides", commit, finish)

    async def stop(self) -> None:
        """Write any overrides that are not on disk yet, and reject further requests. A second call has no effect."""
        if self._over:
            return
        self._over = True
        if self._timer:
            self._timer.cancel()
        if self._sharing:
            await self._sharing.stop()
        if self._begun.is_set():
            await self.save()
            self.store.stop()
        self._begun.set()

    async def save(self) -> str:
        """Write the overrides to disk (see ``OverrideStore.save``)."""
        return await self.store.save(self.overrides, self.orders)

    async def carry_out(self, request: OverrideRequest, by: str) -> tuple[OverrideTargets, Sequence[Override]]:
        """Carry out a request from user ``by``, and return its targets and the overrides that it ended.

        Queries that arrive after this method returns are answered according to the new overrides. Raises LbdnsError if
        the request cannot be carried out.
        """
        await self._begun.wait()
        async with self.handing_over:
            if self._over:
                raise LbdnsError("this server is stopping, or a new process has taken over; repeat the command")
            if request.kind is None:
                targets, ended = self._end(request, by)
            else:
                targets, ended = self._put(request, by), ()
        # A worker sends its counters only after it has handled all earlier messages, including this override
        await self._answerer.refresh()
        return targets, ended

    def _put(self, request: OverrideRequest, by: str) -> OverrideTargets:
        assert request.kind, "a request that ends overrides cannot also set an override"
        targets = find_targets(self._farm, request)
        now = self._clock()
        new = [
            Override(request.kind, name, request.pool, request.factor, by, request.reason, now, now + request.for_s)
            for name in targets.full_names
        ]
        after = self.overrides
        if not request.pool:  # it applies to every pool, so it replaces the overrides for single pools
            after = after.without(
                each for each in after.items if each.slot == request.slot and each.member in targets.full_names
            )
        for override in new:
            after = after.put(override)
        if len(after.items) > MAX_OVERRIDES:
            count = len(self.overrides.items)
            raise LbdnsError(
                f"{count} overrides are in force, and the limit is {MAX_OVERRIDES}; end some overrides first"
            )
        planner, warning = self._answerer.planner, ""
        if request.kind in ("drain", "down"):
            state = planner.snapshot, planner.guards, self._loop.time()
            warning = why_not_spare(targets, self.overrides, after, self._farm, *state)
        if warning and not request.force:
            raise LastMemberError(warning)
        for override in new:
            self.events.placed(override, request, warning)
        self._change_to(after, by)
        return targets

    def _end(self, request: OverrideRequest, by: str) -> tuple[OverrideTargets, Sequence[Override]]:
        try:
            targets = find_targets(self._farm, request)
        except UnknownNameError:
            forgotten = find_forgotten_targets(self.overrides, request)
            if forgotten is None:
                raise
            targets = forgotten
        followed = [o for o in self._followed_in_force() if o.slot == request.slot and o.member in targets.full_names]
        try:
            ended = overrides_to_end(targets, request, Overrides(self.overrides.own))
        except LbdnsError:
            if not followed:
                raise
            what = f"{followed[0].member} is {followed[0].text()}"
            raise LbdnsError(f"{what}; end this override on the server at {followed[0].origin}") from None
        for override in ended:
            self.events.ended(override, request, by)
        self._change_to(self.overrides.without(ended), by)
        return targets, ended

    def _change_to(self, overrides: Overrides, by: str = "") -> None:
        """Put ``overrides`` into force. The user ``by`` has ordered the changes of this server's own ones, if any."""
        own: Iterable[Override] = overrides.own
        if self.sharing:
            self._end_expired()
            self.sharing.give(self.overrides.own, own, by)
            own = self.orders.in_force(self._clock()).items
        self._answerer.override(merge_overrides(own, self._followed_in_force()))
        self._check()

    def _orders_changed(self, lost: Iterable[SharedOrder]) -> None:
        """Put the orders of all servers into force."""
        self._lost += lost
        if self._over or self.sharing is None:
            return
        if self.handing_over.locked():  # if the successor fails, this server goes on
            self._loop.call_later(HAND_OVER_WAIT, self._orders_changed, ())
            return
        self._end_expired()
        before, after = set(self.overrides.own), self.orders.in_force(self._clock()).items
        for override in before.difference(after):
            order = self.orders.orders.get(override.place)
            if order and order.override is None:
                self.events.ended_elsewhere(override, order)
        for override in after:
            if override not in before:
                self.events.followed(override)
        for order in self._lost:
            self.events.lost(order, self.orders.orders[order.place])
        self._lost.clear()
        if before != set(after):
            self._answerer.override(merge_overrides(after, self._followed_in_force()))
        self._check()

    def _check(self) -> None:
        """End expired overrides, write overrides that are not on disk yet, and schedule the next check."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._over or not self._begun.is_set():
            return
        self._end_expired()
        unwritten = not self.store.has(self.overrides, self.orders)
        if unwritten:
            self.store.write(self.overrides, self.orders)
        until = self.overrides.next_end
        if until < math.inf or unwritten:
            wait = min(max(until - self._clock(), MIN_TIMER_WAIT), CHECK_PERIOD)
            self._timer = self._loop.call_later(wait, self._check)

    def _end_expired(self) -> None:
        now = self._clock()
        expired = self.overrides.ended(now)
        for override in expired:
            self.events.expired(override)
        if expired:
            followed = [override for override in self._followed_in_force() if override.until > now]
            self._followed = None if self._followed is None else followed
            self._answerer.override(merge_overrides(self.overrides.without(expired).own, followed))
