"""Snapshots on their way to worker processes: what changed since the last one, and nothing else. Pure."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from lbdns.snapshot import Reading, Snapshot


def write_news(before: Mapping[str, Reading], snapshot: Snapshot) -> bytes:
    """What whoever knows ``before`` has to be told to know ``snapshot``.

    Readings that did not change stay the same objects there, and so do metrics that a new reading has taken from the
    one before: by that choosers know what is new.
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


def read_news(before: Mapping[str, Reading], news: bytes) -> Snapshot:
    """The snapshot that ``news`` makes of ``before``. Only for what the main process itself has written."""
    version, changed, gone = pickle.loads(news)
    readings = {name: reading for name, reading in before.items() if name not in gone}
    for name, (received, interval, score, metrics, *rest) in changed.items():
        known = readings[name].metrics if metrics is None else metrics
        readings[name] = Reading(received, interval, score, known, *rest)
    return Snapshot(version, readings)
