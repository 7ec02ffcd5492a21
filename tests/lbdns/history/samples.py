"""Samples that tests make up: a pool whose members report every second, with the clock of the test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lbdns.history.recorder import Recorder
from lbdns.history.sample import PoolSample, Sample
from lbdns.liveness import State
from lbdns.snapshot import Reading

BEGIN = 1_800_000_000.0  # Unix seconds; a whole minute
USABLE: State = "usable"


def pool(second: int, members: Mapping[str, float], name: str = "web", **changes: object) -> PoolSample:
    """``members``: each with its load at that second; 10 answers a second times its place."""
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
    found = PoolSample(name, "hobbit", {"best": "best"}, tuple(members), readings, states, answers)
    return replace(found, **changes)  # type: ignore[arg-type]  # whatever the test says


def sample(second: int, *pools: PoolSample, types: Mapping[str, int] | None = None) -> Sample:
    found = pools or (pool(second, {"a": 50.0, "b": 20.0}),)
    asked = {"A": 30 * second, "AAAA": 5 * second} if types is None else types
    return Sample(BEGIN + second, float(second), 3.0, found, asked, {"NOERROR": sum(asked.values())})


def fill(recorder: Recorder, samples: Iterable[Sample], every: int = 5) -> None:
    """Take them, with a commit after each ``every``, and write all."""
    for number, taken in enumerate(samples, 1):
        recorder.take(taken)
        if number % every == 0:
            recorder.commit()
    recorder.finish()
