"""What happened: one event is one log line, one line of the history, one mark on the page.

Whoever notices something tells the ``Events`` of its program; nobody else logs it.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Kind = Literal[
    "state",  # a member became usable, silent, drained, refused by an alarm
    "guard",  # a member that reports well is set aside, or taken back
    "fail_open",  # a pool fails open, or no longer
    "override",  # somebody drained, forced or weighed a member, or that came to its end
    "reload",  # a configuration is in force, or was refused
    "key",  # reports whose tag fits no key
    "clock",  # reports from a clock that is wrong
    "reports",  # reports that are refused for another reason, or lost
    "worker",  # an answering process died and was replaced
    "collector",  # the collector that is followed went, or came back
    "history",  # what is recorded can't be, or can be again
    "overload",  # more is asked than is answered
    "server",  # start, take-over, stop
]
KINDS: Final[tuple[Kind, ...]] = (
    "state", "guard", "fail_open", "override", "reload", "key", "clock", "reports", "worker", "collector", "history",
    "overload", "server",
)  # fmt: skip
KEPT: Final = 1000  # events that are remembered; the history has more of them


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``time`` (Unix seconds). ``pool`` and ``member`` (relative to the zone; a host's
    full name where no pool is meant) are empty where it is about none. ``id`` grows, and starts anew with the
    program."""

    id: int
    time: float
    kind: Kind
    level: str  # "info", "warning", "error"
    text: str
    pool: str = ""
    member: str = ""

    def document(self) -> dict[str, Any]:
        """As the HTTP interface tells it."""
        return asdict(self)


class Events:
    """The newest events of a program, and who wants to hear of more. Everything in one thread."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        #: By kind and level: how many were told so far, and the newest
        self.counts: Counter[tuple[Kind, str]] = Counter()
        self.last: dict[tuple[Kind, str], Event] = {}
        self._clock = clock
        self._numbers = itertools.count(1)
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._subscribers: list[Callable[[Event], None]] = []

    def tell(
        self,
        kind: Kind,
        text: str,
        *,
        level: int = logging.INFO,
        pool: str = "",
        member: str = "",
        logger: str = "lbdns",
    ) -> None:
        """Log ``text``, keep it, and hand it on. ``text`` is complete: it names pool and member where that matters."""
        name = logging.getLevelName(level).lower()
        event = Event(next(self._numbers), self._clock(), kind, name, text, pool, member)
        logging.getLogger(logger).log(level, "%s", text, extra={"event": event})
        self._kept.append(event)
        self.counts[kind, name] += 1
        self.last[kind, name] = event
        for subscriber in tuple(self._subscribers):
            subscriber(event)

    def newest(self, limit: int = KEPT, since: float = 0.0) -> Sequence[Event]:
        """At most ``limit`` events from after ``since`` (Unix seconds), the newest last."""
        found = [event for event in self._kept if event.time > since]
        return found[-limit:] if limit > 0 else []

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Have ``callback`` called with each event from now on; returns how to end it."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)
