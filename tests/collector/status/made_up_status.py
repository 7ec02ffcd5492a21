"""Readings, and the inputs of a status document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lbdns.model.farm import Farm
from lbdns.model.snapshot import Reading, Snapshot
from lbdns_collector.status.status_document import ProgramStatus, StatusInputs
from tests.collector.collector_fixtures import IDLE
from tests.overriding import drains

NOW = 5000.0


def status_inputs(
    farm: Farm,
    readings: Mapping[str, Reading],
    drained: tuple[str, ...] = (),
    answers: tuple[int, ...] = (),
    now: float = NOW,
) -> StatusInputs:
    snapshot = Snapshot(1, {f"{name}.hobbit": reading for name, reading in readings.items()})
    overrides = drains(*(f"{name}.hobbit" for name in drained))
    return StatusInputs(farm, snapshot, now, overrides, {"web": answers}, ProgramStatus("1.2", 60.0, 9, 1))


def reading(age: float = 0.5, **changes: Any) -> Reading:
    values = {"interval": 1.0, "score": 80, "metrics": IDLE, **changes}
    return Reading(received=NOW - age, **values)


def members(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {member["name"]: member for member in document["pools"][0]["members"]}
