"""Simulates a collector's checks of hosts whose reports are overdue, using the real schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from lbdns.config.check_setting import CheckConfig, parse_target
from lbdns.model.snapshot import Reading
from lbdns_collector.checks.check_schedule import CheckSchedule, MemberCheck, ReadingOf
from lbdns_collector.checks.probe_result import PASSED, ProbeResult
from lbdns_tools.sim.event_calendar import EventCalendar

CHECK: Final = CheckConfig(parse_target("icmp"))
NO_ANSWER: Final = ProbeResult(False, f"no answer within {CHECK.timeout:g} s")
STEP: Final = 0.01  # s between two looks at the schedule, as in the collector


class SimulatedChecks:
    """Simulates one DNS server's checks of the hosts ``names``.

    ``reading`` returns the DNS server's newest reading of a host.

    ``is_dead`` returns whether the host with a given index is dead. ``receive`` is called with each reading that a
    check has changed.
    """

    def __init__(
        self,
        names: Sequence[str],
        stale_after: float,
        reading: ReadingOf,
        is_dead: Callable[[int], bool],
        receive: Callable[[str, Reading, float], None],
    ) -> None:
        self._index = {name: i for i, name in enumerate(names)}
        self._reading, self._is_dead, self._receive = reading, is_dead, receive
        self._schedule = CheckSchedule()
        self._schedule.stale_after = stale_after

    def schedule(self, calendar: EventCalendar) -> None:
        """Schedule all checks."""
        self._schedule.use([MemberCheck("", name, (), CHECK) for name in self._index], 0.0)
        calendar.at(self._schedule.next_due, partial(self._look, calendar))

    def _look(self, calendar: EventCalendar, now: float) -> None:
        while self._schedule.next_due <= now:
            check = self._schedule.take(self._reading, now)
            if check and self._is_dead(self._index[check.member]):
                calendar.at(now + CHECK.timeout, partial(self._finish, check, NO_ANSWER, now))
            elif check:
                self._finish(check, PASSED, now, now)
        # A check that is still running is looked at again when it has ended, one step later at most
        calendar.at(max(min(self._schedule.next_due, now + CHECK.interval), now + STEP), partial(self._look, calendar))

    def _finish(self, check: MemberCheck, result: ProbeResult, began: float, now: float) -> None:
        changed = self._schedule.finish(check, result, began, self._reading, now)
        if changed is not None:
            self._receive(check.member, changed, now)
