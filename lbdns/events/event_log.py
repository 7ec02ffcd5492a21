"""The event log of a program. Each event appears as a log line, as a row in the history and as a mark on the live page.

Code that detects an event must record it in the program's ``EventLog``, and must not log it separately.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

EventKind = Literal[
    "state",  # a member became usable, silent, drained or in alarm
    "membership",  # hosts joined or left a pool
    "guard",  # a member that reports well was quarantined, or returned to rotation
    "fail_open",  # a pool began or ceased to fail open
    "site",  # the clients of a site began or ceased to use other sites
    "backup",  # a pool began or ceased to use its backup
    "override",  # an operator drained, forced or reweighted a member, or such an override ended
    "reload",  # a configuration was applied or rejected
    "key",  # reports with a tag that fits no key
    "clock",  # reports with a wrong time
    "reports",  # reports dropped for another reason, or lost
    "worker",  # an answering process died and was replaced
    "collector",  # the followed collector disconnected or returned
    "history",  # recording failed or works again
    "overload",  # queries arrive faster than they are answered
    "server",  # start, take-over or stop
]
EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)
KEPT: Final = 1000  # events kept in memory; the history keeps more


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event at ``time`` (Unix seconds).

    ``pool`` is empty if the event concerns no pool, and ``member`` is empty if it concerns no member. ``member`` is a
    name relative to the zone, or a full name if ``pool`` is empty. ``id`` increases with each event, and restarts at 1
    when the program restarts.
    """

    id: int
    time: float
    kind: EventKind
    level: str  # "info", "warning", "error"
    text: str
    pool: str = ""
    member: str = ""

    def document(self) -> dict[str, Any]:
        return asdict(self)


class EventLog:
    """A log that keeps a program's newest events, and passes new events to subscribers.

    Use each event log in only one thread.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        #: Per kind and level: the number of events so far, and the newest event
        self.counts: Counter[tuple[EventKind, str]] = Counter()
        self.last: dict[tuple[EventKind, str], LoggedEvent] = {}
        self._clock = clock
        self._numbers = itertools.count(1)
        self._kept: deque[LoggedEvent] = deque(maxlen=KEPT)
        self._subscribers: list[Callable[[LoggedEvent], None]] = []

    def record(
        self,
        kind: EventKind,
        text: str,
        *,
        level: int = logging.INFO,
        pool: str = "",
        member: str = "",
        logger: str = "lbdns",
    ) -> None:
        """Log ``text``, keep the event, and pass it to all subscribers.

        ``text`` must be understandable without context, so it must contain the names of the pool and member concerned.
        """
        name = logging.getLevelName(level).lower()
        event = LoggedEvent(next(self._numbers), self._clock(), kind, name, text, pool, member)
        logging.getLogger(logger).log(level, "%s", text, extra={"event": event})
        self._kept.append(event)
        self.counts[kind, name] += 1
        self.last[kind, name] = event
        for subscriber in tuple(self._subscribers):
            subscriber(event)

    def newest(self, limit: int = KEPT, since: float = 0.0) -> Sequence[LoggedEvent]:
        """Return up to ``limit`` of the newest events after ``since`` (Unix seconds), in chronological order."""
        found = [event for event in self._kept if event.time > since]
        return found[-limit:] if limit > 0 else []

    def subscribe(self, callback: Callable[[LoggedEvent], None]) -> Callable[[], None]:
        """From now on, call ``callback`` with each new event. Return a function that ends the subscription."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)
