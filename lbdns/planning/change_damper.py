"""The change damper: limits how often changes of one member or pool are announced. Sans-I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lbdns.events.event_log import EventKind

WINDOW: Final = 60.0  # s
MAX_CHANGES: Final = 6  # announced changes of one kind, of one member, in a window
Subject = tuple[EventKind, str, str]  # kind, pool, member


@dataclass(frozen=True, slots=True)
class Announcement:
    """The announcement of a change. ``member`` is empty if the change concerns a pool."""

    kind: EventKind
    level: int
    pool: str
    member: str
    text: str


@dataclass(slots=True)
class _Damped:
    last: Announcement
    at: float  # monotonic seconds of the last change
    unlogged: int  # changes that were not announced


class ChangeDamper:
    """Forwards announcements, but limits announcements about members that change very often and could fill logs.

    After six changes to a member within a minute, one announcement reports that further changes will be counted but not
    announced. If no further change occurs for a minute, a final announcement reports the last change and the count.
    Announcements about other members, and about other kinds of change, are unaffected. Times are in monotonic seconds.
    """

    def __init__(self) -> None:
        self._window_end = 0.0
        self._announced = Counter[Subject]()  # in this window
        self._damped: dict[Subject, _Damped] = {}  # the member that changed last is the last

    @property
    def next_end(self) -> float:
        """The earliest time at which ``ended`` may yield an announcement, or inf."""
        return next((damped.at + WINDOW for damped in self._damped.values()), float("inf"))

    def admit(self, announcement: Announcement, now: float) -> Announcement | None:
        """Return the announcement to make, or None if the change is only counted. If this announcement is the last
        before counting begins, its text says so."""
        subject = announcement.kind, announcement.pool, announcement.member
        if damped := self._damped.pop(subject, None):
            self._damped[subject] = _Damped(announcement, now, damped.unlogged + 1)
            return None
        if now >= self._window_end:
            self._announced.clear()
            self._window_end = now + WINDOW
        self._announced[subject] += 1
        if self._announced[subject] <= MAX_CHANGES:
            return announcement
        self._damped[subject] = _Damped(announcement, now, 0)
        text = f"; there are too many changes: further changes are only counted until no change occurs for {WINDOW:g} s"
        return replace(announcement, text=announcement.text + text)

    def ended(self, now: float) -> Iterator[Announcement]:
        """Yield an announcement for each member that has stopped changing."""
        while self.next_end <= now:
            subject, damped = next(iter(self._damped.items()))
            del self._damped[subject]
            text = f"{damped.last.text}; no change for {WINDOW:g} s after {damped.unlogged} unlogged changes"
            yield replace(damped.last, text=text)
