"""The snapshot: an immutable table of all members' newest readings, used to generate answers and web pages."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from lbdns_shared.report import MIN_INTERVAL, WEB_SERVER_FAILED

NO_METRICS: Final[Mapping[str, float]] = MappingProxyType({})


class FailedCheck(NamedTuple):
    """A member's failing check: the pool whose ``check`` fails, and the error (``tcp:80: connection refused``)."""

    pool: str
    reason: str


# Not frozen: a frozen class takes five times as long to construct, and every report makes a reading. Snapshots, threads
# and pools share readings, so nothing may change one: use ``dataclasses.replace``.
@dataclass(slots=True)
class Reading:
    """The newest accepted report of one member, with its score, and the member's failing checks.

    The reading of a member without an agent has no score and no metrics. For a member without an agent, ``received`` is
    the time of the last successful check, and ``interval`` is the time between checks.

    ``received`` is in seconds on the receiver's monotonic clock; ``interval`` is the agent's declared interval in
    seconds. ``gone`` is true after a "bye" report. ``alarm`` states why the agent wants no traffic, or is empty if
    there is no alarm. ``metrics`` come from the newest report; if an alarm or a "bye" contains no metrics, they come
    from an earlier report. ``shadow_score`` is the report's score according to ``[collector] shadow_score``, or None if
    that setting is absent.
    """

    received: float
    interval: float  # s, as the agent declares it
    score: int | None  # None if the member has no agent
    metrics: Mapping[str, float] = field(default_factory=dict, repr=False)
    alarm: str = ""
    gone: bool = False
    shadow_score: int | None = None
    failed_checks: tuple[FailedCheck, ...] = ()

    @property
    def web_server_failed(self) -> bool:
        """Return whether the agent reports that the web server has failed."""
        return bool(self.alarm) and self.alarm.startswith(WEB_SERVER_FAILED)

    def failure(self, pool: str) -> str:
        """Return the error from the check of ``pool``, or an empty string if the check succeeds."""
        if not self.failed_checks:  # the usual case; this is checked for every member and plan
            return ""
        return next((check.reason for check in self.failed_checks if check.pool == pool), "")


def write_reading(reading: Reading, now: float) -> list[Any]:
    """Return a reading as plain data, with its age at ``now`` (monotonic seconds) instead of its time of receipt.

    The age is written because monotonic times are meaningless on another machine.
    """
    age = max(0.0, now - reading.received)
    # Older versions do not know about checks, and read a list of six items; others ignore the eighth
    more: list[Any] = []
    if reading.failed_checks or reading.shadow_score is not None:
        more = [[list(check) for check in reading.failed_checks], reading.shadow_score]
    return [age, reading.interval, reading.score, dict(reading.metrics), reading.alarm, reading.gone, *more]


def read_reading(value: Any, now: float) -> Reading:
    """Convert the result of ``write_reading`` back into a reading; ``now`` is this machine's monotonic time.

    Raises ValueError or TypeError if ``value`` is not a valid reading.
    """
    age, interval, score, metrics, alarm, gone, *more = value
    numbers = {str(name): float(number) for name, number in metrics.items()}
    if not (0 < float(interval) < math.inf and math.isfinite(age) and all(map(math.isfinite, numbers.values()))):
        raise ValueError(f"not a valid reading: {value!r}")
    failed = tuple(FailedCheck(str(pool), str(reason)) for pool, reason in (more[0] if more else ()))
    shadow = int(more[1]) if len(more) > 1 and more[1] is not None else None
    fields = max(MIN_INTERVAL, float(interval)), None if score is None else int(score), numbers, str(alarm), bool(gone)
    return Reading(now - max(0.0, age), *fields, shadow, failed)


class ReadingChanges:
    """The members whose readings one snapshot has changed. ``next`` leads to the changes of the next snapshot.

    From the changes of one snapshot, all later ones can be found. Changes without a reference to them are freed.
    """

    __slots__ = ("members", "next")

    def __init__(self, members: Collection[str] = ()) -> None:
        self.members = members  # full names
        self.next: ReadingChanges | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest reading of every member that has ever reported, keyed by the member's full name.

    A full name, such as ``gandalf.hobbit``, is in lower case and has no final dot. ``version`` increases with every
    snapshot that a source publishes. ``changes`` is None if the source does not record which readings have changed.
    """

    version: int = 0
    readings: Mapping[str, Reading] = field(default_factory=dict)
    changes: ReadingChanges | None = field(default=None, repr=False, compare=False)


def changed_members(before: Snapshot, after: Snapshot) -> list[str]:
    """Return the full names of the members whose reading in ``after`` is not the same object as in ``before``.

    Members without a reading in ``before`` are included. ``before`` must be an earlier snapshot of the same source. If
    the source records changes, the time that this function takes depends on their number, not on that of the members.
    """
    known, current = before.readings.get, after.readings
    changed = changed_since(before.changes, after)
    names: Iterable[str] = after.readings if changed is None else changed
    return [name for name in names if name in current and known(name) is not current[name]]


def changed_since(before: ReadingChanges | None, after: Snapshot) -> Collection[str] | None:
    """Return the full names of all members whose readings may have changed since the snapshot with the changes
    ``before``, or None if it is unknown."""
    found: dict[str, None] = {}
    changes = before
    while changes is not None and changes is not after.changes:
        changes = changes.next
        if changes is not None:
            found.update(dict.fromkeys(changes.members))
    return None if changes is None else found


EMPTY_SNAPSHOT: Final = Snapshot()
