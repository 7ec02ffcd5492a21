"""Samples for tests: a pool whose members report every second, in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lbdns.history.history_recorder import HistoryRecorder
from lbdns.history.history_sample import HistorySample, PoolHistorySample
from lbdns.model.liveness import State
from lbdns.model.snapshot import Reading

BEGIN = 1_800_000_000.0  # Unix seconds; a whole minute
USABLE: State = "usable"


def pool(second: int, members: Mapping[str, float], name: str = "web", **changes: object) -> PoolHistorySample:
    """Return a pool sample. ``members``: name -> load. The n-th member receives 10 * n answers/s."""
    readings = tuple(
        Reading(
            second - 0.25,
            1.0,
            int(load),
            {"cpu_idle": load, "requests_total": 1e9 + 100.0 * second, "httpd_cpu_seconds": 0.25 * second},
        )
        for load in members.values()
    )
    answers = tuple(10 * second * place for place in range(1, len(members) + 1))
    states = (USABLE,) * len(members)
    found = PoolHistorySample(name, "hobbit", {"best": "best"}, tuple(members), readings, states, answers)
    return replace(found, **changes)  # type: ignore[arg-type]  # whatever the test says


def sample(second: int, *pools: PoolHistorySample, types: Mapping[str, int] | None = None) -> HistorySample:
    found = pools or (pool(second, {"a": 50.0, "b": 20.0}),)
    asked = {"A": 30 * second, "AAAA": 5 * second} if types is None else types
    return HistorySample(BEGIN + second, float(second), 3.0, found, asked, {"NOERROR": sum(asked.values())})


def fill(recorder: HistoryRecorder, samples: Iterable[HistorySample], every: int = 5) -> None:
    """Record the samples, commit after every ``every`` samples, and finish the recorder."""
    for number, taken in enumerate(samples, 1):
        recorder.add_sample(taken)
        if number % every == 0:
            recorder.commit()
    recorder.finish()
