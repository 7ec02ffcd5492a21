"""The outcome of each query that the measuring load sent, and statistics of the outcomes in a period."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lbdns_tools.percentiles import percentile

TIMEOUT: Final = 1.0  # seconds that a client waits for an answer before it asks again, and then before it gives up
NO_MEMBER: Final = 65_535  # in a record: the answer names no member, or there is none
RECORD: Final = struct.Struct("<ddBHB")


class QueryRecord(NamedTuple):
    """The outcome of one query.

    ``sent`` is in monotonic seconds. ``waited`` is the number of seconds until the answer, or infinity if no answer
    arrived.

    ``tries`` is the number of times that the query was sent (2 if no answer arrived before the first time-out).
    ``member`` is the position of the member that the answer names, or NO_MEMBER. ``is_wrong`` is set if the answer is
    not authoritative or does not contain the address of a member.
    """

    sent: float
    waited: float
    tries: int
    member: int
    is_wrong: bool

    def packed(self) -> bytes:
        return RECORD.pack(self.sent, self.waited, self.tries, self.member, self.is_wrong)


def unpack(data: bytes) -> list[QueryRecord]:
    """Return the records in ``data``. The length of ``data`` must be a multiple of RECORD.size."""
    return [
        QueryRecord(sent, waited, tries, member, bool(wrong))
        for sent, waited, tries, member, wrong in RECORD.iter_unpack(data)
    ]


@dataclass(frozen=True, slots=True)
class Ban:
    """A period, in monotonic seconds, during which no answer may name the member at position ``member``."""

    member: int
    begin: float
    end: float = math.inf

    def broken_by(self, record: QueryRecord) -> bool:
        return record.member == self.member and self.begin <= record.sent < self.end


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """Statistics of the queries in one period.

    ``lost`` is the number of queries whose first attempt was not answered within TIMEOUT. ``lost_after_retry`` is the
    number of queries that were not answered on the second attempt either. ``last_bad`` is the time in monotonic seconds
    at which the last lost or wrongly answered query was sent. ``last_bad`` is 0 if there is no such query.
    """

    sent: int
    lost: int
    lost_after_retry: int
    wrong: int
    p99_ms: float
    last_bad: float


def figures(records: Iterable[QueryRecord], bans: Sequence[Ban] = ()) -> QueryFigures:
    """Return statistics of ``records``, which must contain all queries of one period."""
    sent = lost = lost_twice = wrong = 0
    last_bad, waits = 0.0, []
    for record in records:
        sent += 1
        is_lost, is_wrong = record.tries > 1, record.is_wrong or any(ban.broken_by(record) for ban in bans)
        lost += is_lost
        lost_twice += math.isinf(record.waited)
        wrong += is_wrong
        if is_lost or is_wrong:
            last_bad = max(last_bad, record.sent)
        if math.isfinite(record.waited):
            waits.append(record.waited)
    return QueryFigures(sent, lost, lost_twice, wrong, round(percentile(waits, 99) * 1000, 1), last_bad)


def shares(records: Iterable[QueryRecord], members: int) -> list[float]:
    """Return each member's share of the answers; all shares are 0 if no answer names a member."""
    counts = [0] * members
    for record in records:
        if record.member < members:
            counts[record.member] += 1
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]
