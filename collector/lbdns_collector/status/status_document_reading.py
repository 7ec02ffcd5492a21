"""Reads the status document of another lbdns, for programs that follow it. Strict, and sans-I/O."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from lbdns.config.server_section import PlaneName
from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMembers, read_joined_member
from lbdns.model.overrides import Override, read_override
from lbdns.model.snapshot import FailedCheck, Reading
from lbdns.native_extension import AVAILABLE

if AVAILABLE:
    import lbdns_native


def read_status(document: object, now: float) -> dict[str, Reading | None]:
    """Return the readings in a status document, keyed by full member name.

    The value is None for members that have never reported.

    Ages are converted to times on this process's monotonic clock, whose current time is ``now``. Raises ValueError if
    the document is invalid.

    """
    readings: dict[str, Reading | None] = {}
    for pool in _objects(document, "pools"):
        zone = _value(pool, "zone", str)
        for member in _objects(pool, "members"):
            name = _value(member, "name", str)
            full_name = f"{name}.{zone}" if zone else name
            before = readings.get(full_name)  # of another pool, whose check may fail too
            failed = before.failed_checks if before else ()
            if failure := _value(member, "check_failed", str, ""):
                failed = (*failed, FailedCheck(_value(pool, "name", str), failure))
            readings[full_name] = _reading(member, now, failed)
    return readings


class ChangesReader:
    """Reads the documents that ``ReportChanges`` writes, natively if it can."""

    def __init__(self, plane: PlaneName) -> None:
        """``plane`` is the setting ``[server] plane``."""
        is_native = AVAILABLE and plane != "python"
        self._native = lbdns_native.ChangesReader(Reading, FailedCheck) if is_native else None

    def read(self, data: bytes, now: float) -> Mapping[str, Reading | None]:
        """Return what ``read_status`` returns for the JSON text ``data``. Raises ValueError."""
        found = self._native.read(data, now) if self._native else None
        return read_status(json.loads(data), now) if found is None else found


def read_joined_members(document: object) -> JoinedMembers:
    """Return the joined members in a status document. Raises ValueError if the document is invalid."""
    found = [
        read_joined_member({"pool": _value(pool, "name", str), **member})
        for pool in _objects(document, "pools")
        for member in _objects(pool, "members")
        if member.get("joined")  # absent in older versions
    ]
    return NO_JOINED_MEMBERS.changed(put=found)


def read_member_overrides(document: object) -> list[Override]:
    """Return the overrides in a status document, without duplicates. Raises ValueError if the document is invalid."""
    found = (
        read_override(override)
        for pool in _objects(document, "pools")
        for member in _objects(pool, "members")
        for override in _value(member, "overrides", list, [])
    )
    return list(dict.fromkeys(found))


def read_all_overrides(document: object) -> list[Override]:
    """Return the overrides in a document from ``overrides_document``. Raises ValueError if ``document`` is invalid."""
    if not isinstance(document, dict):
        raise ValueError("the overrides must be an object")
    return [read_override(value) for value in _value(document, "overrides", list)]


def _reading(member: Mapping[str, Any], now: float, failed_checks: tuple[FailedCheck, ...]) -> Reading | None:
    if member.get("age_s") is None:
        return None
    metrics = _value(member, "metrics", dict)
    for name in metrics:
        _number(metrics, name)
    interval = _number(member, "interval_s")
    if interval <= 0:
        raise ValueError(f"interval_s must be greater than 0, not {interval}")
    return Reading(
        received=now - max(0.0, _number(member, "age_s")),
        interval=interval,
        score=None if member.get("score", 0) is None else _value(member, "score", int),
        metrics={name: float(number) for name, number in metrics.items()},
        alarm=_value(member, "alarm", str, ""),
        gone=_value(member, "gone", bool, False),
        # Only a collector with a shadow score sends this key
        shadow_score=_value(member, "shadow_score", int) if "shadow_score" in member else None,
        failed_checks=failed_checks,
    )


def _objects(document: object, key: str) -> list[Mapping[str, Any]]:
    found = document.get(key) if isinstance(document, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f"{key} must be a list of objects")
    return found


def _value(table: Mapping[str, Any], key: str, kind: type, default: object = None) -> Any:
    value = table.get(key, default)
    if type(value) is not kind:
        raise ValueError(f"{key} must be of type {kind.__name__}, not {value!r}")
    return value


def _number(table: Mapping[str, Any], key: str) -> float:
    value = table.get(key)
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError(f"{key} must be a finite number, not {value!r}")
    return float(value)  # type: ignore[arg-type]
