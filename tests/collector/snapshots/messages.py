"""Messages of collectors for tests."""

from __future__ import annotations

from typing import Any

from lbdns.model.snapshot import Reading
from lbdns_collector.snapshots.snapshot_messages import ReportRank, SnapshotMessage

NOW, WALL = 1000.0, 1_700_000_000.0
NONCE = bytes(16)


def rank(seq: int, boot: int = 7, latest: float = WALL) -> ReportRank:
    return ReportRank(boot, seq, latest)


def reading(score: int = 50, **more: Any) -> Reading:
    return Reading(NOW, 1.0, score, {"cpu_idle": 42.5}, **more)


def message(seq: int, boot: int = 1, *, name: str = "one", at: float = WALL, **members: Any) -> SnapshotMessage:
    """Return changes. Each of ``members`` is a score and the sequence number of the report."""
    found = {f"{member}.hobbit": (reading(score), rank(number)) for member, (score, number) in members.items()}
    return SnapshotMessage(name, boot, seq, at, found)


def part(
    seq: int, index: int = 0, *, is_last: bool = True, nonce: bytes = NONCE, boot: int = 1, **more: Any
) -> SnapshotMessage:
    """Return a part of a whole snapshot."""
    more.setdefault("members", {})
    return SnapshotMessage("one", boot, seq, WALL, nonce=nonce, index=index, is_last=is_last, **more)
