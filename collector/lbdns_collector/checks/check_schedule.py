"""The check schedule: decides when each member is checked, and how check results change the members' readings.
Sans-I/O.

A member with an agent is checked if its report is overdue, if its agent reports a failed web server, or while its check
fails. If the agent has stopped or has been silent for ``stale_after`` intervals, the member is not checked, because the
result would change nothing.

A member without an agent is checked at its pool's check interval. The reading of a member without an agent contains the
time of the last check that passed.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lbdns.config.check_setting import CheckConfig
from lbdns.model.farm import Farm
from lbdns.model.liveness import silent_at
from lbdns.model.snapshot import FailedCheck, Reading
from lbdns_collector.checks.probe_result import ProbeResult

#: Report intervals since the newest report, after which the next one is overdue: an agent may wait a quarter of an
#: interval for its sensors. With 1.5, 'best' would lose as many requests as round robin without checks does
OVERDUE: Final = 1.3


@dataclass(frozen=True, slots=True)
class MemberCheck:
    """One member of a pool, and the check that the pool requires. ``member`` is the member's full name."""

    pool: str
    member: str
    addresses: tuple[str, ...]
    check: CheckConfig
    agentless: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.pool, self.member


def checks_of(farm: Farm) -> list[MemberCheck]:
    """For each pool that has a check configured, return one check per member."""
    return [
        MemberCheck(pool.name, member.full_name, member.addresses, pool.config.check, member.agentless)
        for pool in farm.pools
        if pool.config.check.target
        for member in pool.members
    ]


class _Entry:
    __slots__ = ("active", "check", "due", "fails", "passes", "phase", "running")

    def __init__(self, check: MemberCheck) -> None:
        self.check = check
        self.active = True  # False once a reload has removed the check
        self.due = math.inf  # monotonic seconds: when to look at this member again
        self.fails = 0  # in a row
        self.passes = 0  # in a row, while the check counts as failed
        self.phase = 1.0  # check intervals until the next check, so that not all members are checked at the same moment
        self.running = False


#: Returns a member's newest reading by the member's full name
ReadingOf = Callable[[str], Reading | None]


class CheckSchedule:
    """A schedule for the checks of all members.

    ``stale_after`` is in report intervals. Times are in monotonic seconds.
    """

    def __init__(self) -> None:
        self.stale_after = math.inf
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._by_member: Mapping[str, list[_Entry]] = {}
        self._heap: list[tuple[float, int, _Entry]] = []  # an item whose time is not its entry's due time is outdated
        self._numbers = itertools.count()

    def use(self, checks: Iterable[MemberCheck], now: float) -> None:
        """Replace all checks with the new checks.

        A new check inherits the state of an old check with the same pool and member.
        """
        before, self._entries, self._heap = self._entries, {}, []
        for old in before.values():
            old.active = False
        by_member: dict[str, list[_Entry]] = {}
        checks = list(checks)
        for number, check in enumerate(checks, 1):
            entry = before.get(check.key)
            if entry is None or entry.check.check != check.check or entry.check.agentless != check.agentless:
                entry = _Entry(check)
                if check.agentless:
                    # The first check at once, since a member that has not been checked cannot be selected
                    entry.due, entry.phase = now, number / len(checks)
            entry.check, entry.active = check, True
            self._entries[check.key] = entry
            by_member.setdefault(check.member, []).append(entry)
            if not entry.running:
                self._plan(entry, min(max(entry.due, now), now + check.check.interval))
        self._by_member = by_member

    @property
    def next_due(self) -> float:
        """The time at which ``take`` must be called again, or infinity."""
        return self._heap[0][0] if self._heap else math.inf

    def hurry(self, members: Iterable[str], now: float) -> None:
        """Check ``members`` now, because their agents report that the web server has failed."""
        for member in members:
            for entry in self._by_member.get(member, ()):
                if not entry.running:
                    self._plan(entry, now)

    def take(self, reading_of: ReadingOf, now: float) -> MemberCheck | None:
        """Remove the first due member from the schedule.

        Return the member's check if the member must be checked now, or None otherwise.

        The caller must run the returned check and then call ``finish``. Do not call this method before ``next_due``.

        """
        due, _, entry = heapq.heappop(self._heap)
        if entry.due != due or entry.running or not entry.active:
            return None
        check = entry.check
        when = self._when(check, reading_of(check.member), now)
        if when > now:
            self._plan(entry, when)
            return None
        entry.running = True
        return check

    def finish(
        self, check: MemberCheck, result: ProbeResult, began: float, reading_of: ReadingOf, now: float
    ) -> Reading | None:
        """Record the result of a check that started at ``began``.

        Return the member's new reading, or None if the reading does not change.
        """
        entry = self._entries.get(check.key)
        if entry is None or entry.check.check != check.check:
            return None  # a reload has removed the check
        entry.running = False
        due, entry.phase = began + entry.phase * check.check.interval, 1.0
        reading = reading_of(check.member)
        if check.agentless:
            changed = self._finish_agentless(entry, reading, result, began)
            if 0 < entry.fails < check.check.down:
                due = began + check.check.timeout  # soon, to tell a dead member from a lost packet
            self._plan(entry, max(now, due))
            return changed
        self._plan(entry, max(now, due))
        if reading is None or reading.gone or result.passed is None:
            return None
        if reading.received > began and not reading.web_server_failed:
            return None  # the agent has reported meanwhile
        failing = reading.failure(check.pool)
        if not result.passed:
            entry.passes = 0
            return with_failure(reading, check.pool, f"{check.check.target}: {result.reason}")
        entry.passes += 1
        return with_failure(reading, check.pool, "") if failing and entry.passes >= check.check.up else None

    def _finish_agentless(
        self, entry: _Entry, reading: Reading | None, result: ProbeResult, began: float
    ) -> Reading | None:
        """Record a check result for a member without an agent.

        Return the member's new reading, or None if the reading does not change.
        """
        pool, check = entry.check.pool, entry.check.check
        if result.passed is None:
            return None
        if not result.passed:
            entry.passes, entry.fails = 0, entry.fails + 1
            if entry.fails < check.down and not (reading and reading.failure(pool)):
                return None
            reading = reading or self._agentless_reading(entry, began)
            return with_failure(reading, pool, f"{check.target}: {result.reason}")
        entry.passes, entry.fails = entry.passes + 1, 0
        if reading and reading.failure(pool) and entry.passes < check.up:
            return None
        passed = self._agentless_reading(entry, began)
        others = tuple(failed for failed in reading.failed_checks if failed.pool != pool) if reading else ()
        return replace(passed, failed_checks=others)

    def _agentless_reading(self, entry: _Entry, began: float) -> Reading:
        # The check of one pool must not make the member seem overdue to another pool with a longer interval
        entries = self._by_member.get(entry.check.member, [entry])
        return Reading(began, max(each.check.check.interval for each in entries), None)

    def _when(self, check: MemberCheck, reading: Reading | None, now: float) -> float:
        """Return the time at which the member must be checked.

        If that time is not known yet, return the time at which to call this method again.
        """
        if check.agentless:
            return now
        if reading is None or reading.gone or now >= silent_at(reading, self.stale_after):
            return now + check.check.interval
        if reading.web_server_failed or reading.failure(check.pool):
            return now
        return reading.received + OVERDUE * reading.interval

    def _plan(self, entry: _Entry, due: float) -> None:
        entry.due = due
        heapq.heappush(self._heap, (due, next(self._numbers), entry))


def with_failure(reading: Reading, pool: str, reason: str) -> Reading | None:
    """Return ``reading`` with the reason why the check of ``pool`` fails, or None if nothing changes.

    ``reason`` is empty if the check passes.
    """
    if reading.failure(pool) == reason:
        return None
    others = tuple(failed for failed in reading.failed_checks if failed.pool != pool)
    return replace(reading, failed_checks=(*others, FailedCheck(pool, reason)) if reason else others)


def without_failures(reading: Reading, known: Callable[[str], bool]) -> Reading | None:
    """Return ``reading`` without check failures of unknown pools, or None if it contains none."""
    kept = tuple(failed for failed in reading.failed_checks if known(failed.pool))
    return None if kept == reading.failed_checks else replace(reading, failed_checks=kept)
