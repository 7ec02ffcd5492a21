"""Records changes in the event log: new member states, quarantines, and pools that fail open."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from lbdns.choosing import site_shares
from lbdns.choosing.guard_rails.guard_rails import Guard
from lbdns.choosing.spillover import NO_MEMBER, RETURNS
from lbdns.events.event_log import EventKind, EventLog
from lbdns.model.farm import Member, Pool
from lbdns.model.liveness import Liveness, State
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns.planning.change_damper import Announcement, ChangeDamper
from lbdns.planning.state_reason import reason


class StateAnnouncer:
    """Records a pool's changes in the event log ``events``; if ``events`` is None, nothing is recorded.

    Changes are queued until ``announce`` is called, because thousands of members may change at the same moment.

    ``selects`` is true if this program selects members. A collector without a DNS server selects no members, so it does
    not announce that a pool fails open.
    """

    def __init__(self, events: EventLog | None, selects: bool) -> None:
        self._events, self._selects = events, selects
        self._waiting: deque[tuple[float, Callable[[], Announcement]]] = deque()  # monotonic seconds of the change
        self._damper = ChangeDamper()

    @property
    def next_end(self) -> float:
        """The monotonic time in seconds at which ``announce`` must be called even if nothing else changes, or inf."""
        return self._damper.next_end

    def announce(self, now: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Record queued changes until the queue is empty or ``is_over`` returns true.

        Return whether changes are still queued.
        """
        for announcement in self._damper.ended(now):
            self._record(announcement)
        while self._waiting:
            at, describe = self._waiting.popleft()
            if admitted := self._damper.admit(describe(), at):
                self._record(admitted)
            if is_over():
                break
        return bool(self._waiting)

    def new_pool(self, pool: Pool, now: float) -> None:
        """Announce that no report has arrived yet for ``pool``."""
        text = "no report yet: all members take turns until the first report arrives"
        self._add("fail_open", logging.INFO, pool, text, now)

    def states(
        self, pool: Pool, before: Liveness, after: Liveness, snapshot: Snapshot, overrides: Overrides, now: float
    ) -> None:
        """Announce the changes from ``before`` to ``after``; ``now`` is in monotonic seconds."""
        changes = zip(pool.members, before.states, after.states, strict=True) if before.states != after.states else ()
        for member, was, state in changes:
            if was != state and self._events:
                reading = snapshot.readings.get(member.full_name)
                self._waiting.append((now, partial(_state, pool, member, was, state, reading, overrides, now)))
        if after.fail_open and not before.fail_open:
            text = f"fails open: {after.fail_open}; all members that are not drained may be selected"
            self._add("fail_open", logging.WARNING, pool, text, now)
        elif before.fail_open and not after.fail_open:
            self._add("fail_open", logging.INFO, pool, "no longer fails open", now)

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
                text = (
                    f"{member.name} is selected again although {guard.why}, because the other members "
                    "cannot handle the load"
                )
            elif state == "usable":
                level = logging.INFO
                text = f"{member.name} is no longer quarantined (duration: {now - was.since:.0f} s; reason: {was.why})"
            else:
                continue
            self._add("guard", level, pool, text, now, member.name)

    def backup(self, pool: Pool, before: str, after: str, now: float) -> None:
        """Announce that a pool uses its backup for another reason, or no longer. An empty reason means that it does not
        use its backup."""
        name = pool.config.backup
        if not after:
            level, text = logging.INFO, f"no longer sends clients to its backup {name}"
        elif after == NO_MEMBER:
            level, text = logging.WARNING, f"{after}; all answers name members of its backup {name}"
        elif before == NO_MEMBER and after == RETURNS:
            level, text = logging.INFO, f"{after} from its backup {name} step by step"
        else:
            level, text = logging.WARNING, f"{after}; some answers name members of its backup {name}"
        self._add("backup", level, pool, text, now)

    def site(self, pool: Pool, site: str, before: str, after: str, now: float) -> None:
        """Announce that the clients nearest to a ``site`` leave it for another reason, or no longer. An empty reason
        means that they use only their nearest site."""
        if not after:
            level, text = logging.INFO, "again gets all answers to its own clients"
        elif after == site_shares.NO_MEMBER:
            level, text = logging.WARNING, f"{after}; the answers to its clients name members of other sites"
        elif before == site_shares.NO_MEMBER:
            level, text = logging.INFO, f"{site_shares.RETURNS} step by step"
        else:
            level, text = logging.WARNING, f"{after}; some answers to its clients name members of other sites"
        self._add("site", level, pool, f"site {site} {text}", now)

    def _add(self, kind: EventKind, level: int, pool: Pool, text: str, now: float, member: str = "") -> None:
        if self._events and (self._selects or kind not in ("fail_open", "backup", "site")):
            announcement = Announcement(kind, level, pool.name, member, f"pool {pool.name}: {text}")
            self._waiting.append((now, lambda: announcement))

    def _record(self, it: Announcement) -> None:
        assert self._events is not None, "without an event log, no change is queued"
        self._events.record(it.kind, it.text, level=it.level, pool=it.pool, member=it.member, logger="lbdns.server")


def _state(
    pool: Pool, member: Member, was: State, state: State, reading: Reading | None, overrides: Overrides, now: float
) -> Announcement:
    why = reason(state, reading, overrides.of(pool.name, member.full_name), now, pool.name)
    # A drain is not a problem: an operator ordered it, and the order has its own event
    level = logging.INFO if state in ("usable", "drained") else logging.WARNING
    text = f"pool {pool.name}: {member.name} is {state} (was {was}){': ' + why if why else ''}"
    return Announcement("state", level, pool.name, member.name, text)
