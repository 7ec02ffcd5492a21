"""Reads a status document: pools and members become readings by full name. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lbdns.model.snapshot import Reading


def read_status(document: object, now: float) -> dict[str, Reading | None]:
    """Return the readings in a status document by the member's full name; None for a member that never reported.
    ``now`` is the reader's monotonic clock, and ages become times on it. Raises ValueError with the reason if
    ``document`` is not a valid status document."""
    readings: dict[str, Reading | None] = {}
    for pool in _list(document, "pools"):
        zone = _get(pool, "zone", str)
        for member in _list(pool, "members"):
            name = _get(member, "name", str)
            readings[f"{name}.{zone}" if zone else name] = _reading(member, now)
    return readings


def _reading(member: Mapping[str, Any], now: float) -> Reading | None:
    if member.get("age_s") is None:
        return None
    metrics = _get(member, "metrics", dict)
    for name in metrics:
        _number(metrics, name)
    interval = _number(member, "interval_s")
    if interval <= 0:
        raise ValueError(f"interval_s must be greater than 0, not {interval}")
    return Reading(
        received=now - max(0.0, _number(member, "age_s")),
        interval=interval,
        score=_get(member, "score", int),
        metrics={name: float(number) for name, number in metrics.items()},
        alarm=_get(member, "alarm", str, ""),
        gone=_get(member, "gone", bool, False),
        # Only a collector with a shadow score sends it
        shadow_score=_get(member, "shadow_score", int) if "shadow_score" in member else None,
    )


def _list(document: object, key: str) -> list[Mapping[str, Any]]:
    found = document.get(key) if isinstance(document, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f"{key} must be a list of objects")
    return found


def _get(table: Mapping[str, Any], key: str, kind: type, default: object = None) -> Any:
    value = table.get(key, default)
    if type(value) is not kind:
        raise ValueError(f"{key} must be of type {kind.__name__}, not {value!r}")
    return value


def _number(table: Mapping[str, Any], key: str) -> float:
    value = table.get(key)
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError(f"{key} must be a finite number, not {value!r}")
    return float(value)  # type: ignore[arg-type]
