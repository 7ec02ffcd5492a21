"""Records new member states, quarantines, and pools that fail open in the event log."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lbdns.choosing.guard_rails.guard_rails import Guard
from lbdns.events.event_log import EventKind, EventLog
from lbdns.model.farm import Pool
from lbdns.model.liveness import Liveness
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Snapshot
from lbdns.planning.explanation import reason


class StateAnnouncer:
    """Records changes in a pool in the event log ``events``. Does nothing if ``events`` is None.

    ``selects`` is true if this program selects members. A collector without a DNS server selects no members, so it does
    not announce that a pool fails open.
    """

    def __init__(self, events: EventLog | None, selects: bool) -> None:
        self._events, self._selects = events, selects

    def new_pool(self, pool: Pool) -> None:
        """Announce that no report has arrived yet for ``pool``."""
        text = "no report yet: all members take turns until the first report arrives"
        self._announce("fail_open", logging.INFO, pool, text)

    def states(
        self, pool: Pool, before: Liveness, after: Liveness, snapshot: Snapshot, overrides: Overrides, now: float
    ) -> None:
        """Announce the changes from ``before`` to ``after``; ``now`` is in monotonic seconds."""
        for member, was, state in zip(pool.members, before.states, after.states, strict=True):
            if was != state:
                in_force = overrides.of(pool.name, member.full_name)
                why = reason(state, snapshot.readings.get(member.full_name), in_force, now, pool.name)
                # A drain is not a problem: an operator ordered it, and the order has its own event
                level = logging.INFO if state in ("usable", "drained") else logging.WARNING
                text = f"{member.name} is {state} (was {was}){': ' + why if why else ''}"
                self._announce("state", level, pool, text, member.name)
        if after.fail_open and not before.fail_open:
            text = f"fails open: {after.fail_open}; all members that are not drained may be selected"
            self._announce("fail_open", logging.WARNING, pool, text)
        elif before.fail_open and not after.fail_open:
            self._announce("fail_open", logging.INFO, pool, "no longer fails open")

    def guards(
        self, pool: Pool, before: Sequence[Guard], after: Sequence[Guard], liveness: Liveness, now: float
    ) -> None:
        """Announce quarantines that have begun or ended; ``now`` is in monotonic seconds."""
        for member, was, guard, state in zip(pool.members, before, after, liveness.states, strict=True):
            level = logging.WARNING
            if guard.quarantined == was.quarantined:
                continue
            if guard.quarantined:
                text = f"{member.name} is quarantined: {guard.why}"
            elif guard.why:
                text = f"{member.name} is selected again, although {guard.why}: the other members cannot carry the load"
            elif state == "usable":
                level = logging.INFO
                text = f"{member.name} is no longer quarantined (duration: {now - was.since:.0f} s; reason: {was.why})"
            else:
                continue
            self._announce("guard", level, pool, text, member.name)

    def _announce(self, kind: EventKind, level: int, pool: Pool, text: str, member: str = "") -> None:
        if self._events and (self._selects or kind != "fail_open"):
            text = f"pool {pool.name}: {text}"
            self._events.record(kind, text, level=level, pool=pool.name, member=member, logger="lbdns.server")
