"""The messages with which collectors share snapshots over a bus, as bodies of signed messages. Pure.

A collector publishes changes under one subject, and numbers these messages. It also replies to requests for its whole
snapshot: a reply is a series of parts, under a subject that the sender of the request has chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lbdns.model.joined_members import JoinedMember, read_joined_member
from lbdns.model.overrides import Override, read_override
from lbdns.model.snapshot import Reading, read_reading, write_reading

PURPOSE: Final = "snapshot"  # of the keys that sign these messages
CHANGES: Final = "lbdns.snapshot.changes"
REQUESTS: Final = "lbdns.snapshot.request"
_REPLIES: Final = "lbdns.snapshot.reply."
MAX_SKEW: Final = 30.0  # seconds between the clocks of a sender and a receiver, as for reports
NONCE_LENGTH: Final = 16  # bytes


class ReportRank(NamedTuple):
    """Says which of two reports of one host is newer. All collectors that accept a report give it the same rank.

    ``boot`` and ``seq`` are the agent's; ``latest`` is the latest time (Unix seconds, on the agent's clock) of any
    report up to this one. The rank of a reading without a report, such as an agentless member's, is NO_RANK.
    """

    boot: int
    seq: int
    latest: float

    def is_newer_than(self, other: ReportRank) -> bool:
        """Return whether the report with this rank is newer. After a restart of the agent, the times decide."""
        return self.seq > other.seq if self.boot == other.boot else self.latest > other.latest


NO_RANK: Final = ReportRank(-1, -1, -math.inf)


@dataclass(frozen=True, slots=True)
class SnapshotMessage:
    """A collector's message: changes, or a part of its whole snapshot.

    ``boot`` is random, and identifies a run of the collector. ``seq`` is the number of the message with changes; for a
    part, it is the number of the last one before the part. ``overrides`` and ``joined`` are None if the message
    contains none: changes contain them if they have changed, and the first part contains both.
    """

    collector: str  # host name of the collector
    boot: int
    seq: int
    time: float  # Unix seconds, when it was sent
    members: Mapping[str, tuple[Reading, ReportRank]] = field(default_factory=dict)  # by full name
    overrides: tuple[Override, ...] | None = None
    joined: tuple[JoinedMember, ...] | None = None
    #: By host name, the records of ``ReportTable.records``; only in parts
    records: Mapping[str, Any] = field(default_factory=dict)
    nonce: bytes = b""  # of the request; empty in changes
    index: int = 0  # of the part
    is_last: bool = False  # whether it is the last part

    def body(self, now: float) -> dict[str, Any]:
        """Return the message as plain data, with the readings' ages at ``now`` (monotonic seconds)."""
        found: dict[str, Any] = {
            "collector": self.collector,
            "boot": self.boot,
            "seq": self.seq,
            "time": self.time,
            "members": {
                name: [write_reading(reading, now), list(rank) if rank is not NO_RANK else None]
                for name, (reading, rank) in self.members.items()
            },
        }
        if self.overrides is not None:
            found["overrides"] = [override.document() for override in self.overrides]
        if self.joined is not None:
            found["joined"] = [member.document() for member in self.joined]
        if self.nonce:
            found |= {"nonce": self.nonce, "index": self.index, "is_last": self.is_last, "records": dict(self.records)}
        return found


def read_message(body: Mapping[Any, Any], now: float) -> SnapshotMessage:
    """Convert the result of ``SnapshotMessage.body`` back; ``now`` is this machine's monotonic time.

    ``records`` is not checked. Raises ValueError if the body is not valid.
    """
    try:
        overrides, joined = body.get("overrides"), body.get("joined")
        return SnapshotMessage(
            _typed(body["collector"], str),
            _typed(body["boot"], int),
            _typed(body["seq"], int),
            _finite(body["time"]),
            {_typed(name, str): (read_reading(value, now), _rank(rank)) for name, (value, rank) in _items(body)},
            None if overrides is None else tuple(map(read_override, overrides)),
            None if joined is None else tuple(map(read_joined_member, joined)),
            _typed(body.get("records", {}), dict),
            _typed(body.get("nonce", b""), bytes),
            _typed(body.get("index", 0), int),
            _typed(body.get("is_last", False), bool),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a valid message: {error!r}") from None


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A request for whole snapshots. ``boot`` is the collector that is asked, or None if all are.

    The parts contain ``nonce``, so that the parts of an earlier reply cannot be replayed. ``receiver`` identifies the
    sender of the request.
    """

    receiver: str
    nonce: bytes
    time: float  # Unix seconds
    boot: int | None = None

    @property
    def reply_subject(self) -> str:
        return reply_subject(self.receiver)

    def body(self) -> dict[str, Any]:
        return {"receiver": self.receiver, "nonce": self.nonce, "time": self.time, "to": self.boot}


def read_request(body: Mapping[Any, Any]) -> SnapshotRequest:
    """Convert the result of ``SnapshotRequest.body`` back. Raises ValueError if the body is not valid."""
    try:
        receiver, boot = _typed(body["receiver"], str), body["to"]
        nonce, time = _typed(body["nonce"], bytes), _finite(body["time"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a valid request: {error!r}") from None
    if not (receiver.isascii() and receiver.isalnum()) or len(nonce) != NONCE_LENGTH:
        raise ValueError("not a valid request: the receiver or the nonce is not valid")
    return SnapshotRequest(receiver, nonce, time, None if boot is None else int(boot))


def reply_subject(receiver: str) -> str:
    """Return the subject for replies to ``receiver``, which consists of letters and digits."""
    return _REPLIES + receiver


def _items(body: Mapping[Any, Any]) -> Any:
    return body["members"].items()


def _rank(value: Any) -> ReportRank:
    if value is None:
        return NO_RANK
    boot, seq, latest = value
    return ReportRank(_typed(boot, int), _typed(seq, int), _finite(latest))


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} must be of type {kind.__name__}")
    return value


def _finite(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} must be a finite number")
    return float(value)
