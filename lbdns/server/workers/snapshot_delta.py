"""Snapshot deltas: encodes the changes since the snapshot that was last sent to a worker. Pure."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from lbdns.model.snapshot import Reading, Snapshot


def write_snapshot_delta(before: Mapping[str, Reading], snapshot: Snapshot) -> bytes:
    """Return the delta that another process needs to turn the readings ``before`` into ``snapshot``.

    If a reading or its metrics have not changed, the other process keeps the existing object. Choosers detect changes
    by comparing the identities of these objects.
    """
    after = snapshot.readings
    changed: dict[str, tuple[Any, ...]] = {}
    for name, reading in after.items():
        old = before.get(name)
        if old is not reading:
            metrics = None if old and old.metrics is reading.metrics else dict(reading.metrics)
            rest = reading.alarm, reading.gone, reading.shadow_score, reading.failed_checks
            changed[name] = (reading.received, reading.interval, reading.score, metrics, *rest)
    return pickle.dumps((snapshot.version, changed, before.keys() - after.keys()), pickle.HIGHEST_PROTOCOL)


def read_snapshot_delta(before: Mapping[str, Reading], delta: bytes) -> Snapshot:
    """Apply ``delta`` to the readings ``before``, and return the resulting snapshot.

    The delta must come from the main process, because unpickling can execute code.
    """
    version, changed, gone = pickle.loads(delta)
    readings = {name: reading for name, reading in before.items() if name not in gone}
    for name, (received, interval, score, metrics, *rest) in changed.items():
        known = readings[name].metrics if metrics is None else metrics
        readings[name] = Reading(received, interval, score, known, *rest)
    return Snapshot(version, readings)
