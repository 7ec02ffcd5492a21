"""Snapshot deltas: what changed since the snapshot that a worker knows, as bytes. Pure."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from lbdns.model.snapshot import Reading, Snapshot


def write_snapshot_delta(before: Mapping[str, Reading], snapshot: Snapshot) -> bytes:
    """Return what a process that knows the readings ``before`` needs to make ``snapshot``.

    Unchanged readings stay the same objects there, and so do metrics that a new reading shares with the one before:
    choosers recognise by identity what is new.
    """
    after = snapshot.readings
    changed: dict[str, tuple[Any, ...]] = {}
    for name, reading in after.items():
        old = before.get(name)
        if old is not reading:
            metrics = None if old and old.metrics is reading.metrics else dict(reading.metrics)
            rest = reading.alarm, reading.gone, reading.shadow_score
            changed[name] = (reading.received, reading.interval, reading.score, metrics, *rest)
    return pickle.dumps((snapshot.version, changed, before.keys() - after.keys()), pickle.HIGHEST_PROTOCOL)


def read_snapshot_delta(before: Mapping[str, Reading], delta: bytes) -> Snapshot:
    """Return the snapshot that a delta makes of the readings ``before``. The delta must come from the main process: it
    is unpickled.
    """
    version, changed, gone = pickle.loads(delta)
    readings = {name: reading for name, reading in before.items() if name not in gone}
    for name, (received, interval, score, metrics, *rest) in changed.items():
        known = readings[name].metrics if metrics is None else metrics
        readings[name] = Reading(received, interval, score, known, *rest)
    return Snapshot(version, readings)
