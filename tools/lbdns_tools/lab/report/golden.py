"""The figures of 1999, which what is measured today is shown beside: WebStone's nine tables."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Final

FILE: Final = "facts/webstone_1999.csv"
STUDY: Final = "webstone"  # the preset that does again what the tables are of
SELECTIONS: Final = ("single", "round_robin", "best")
WORKLOADS: Final = ("html", "cgi", "mixed")


@dataclass(frozen=True, slots=True)
class Golden:
    """One line of a table of 1999. Its names are those of results.csv."""

    table: str
    selection: str
    workload: str
    clients: int
    connections_per_s: float
    littles_load_factor: float
    mean_latency_s: float
    error_percent: float
    throughput_mbit_per_s: float


#: Those of a line that were measured
FIGURES: Final = tuple(field.name for field in fields(Golden) if field.type == "float")


@cache
def lines() -> tuple[Golden, ...]:
    """All of them: table by table, by the number of clients."""
    text = resources.files("lbdns_tools.lab").joinpath(FILE).read_text("utf-8")
    return tuple(
        Golden(line["table"], line["selection"], line["workload"], int(line["clients"]),
               *(float(line[name]) for name in FIGURES))
        for line in csv.DictReader(text.splitlines())
    )  # fmt: skip


def table_of(selection: str, workload: str) -> str | None:
    """What the table of a selection and a workload was called; None where there was none."""
    return next((line.table for line in _those(selection, workload)), None)


def line_of(selection: str, workload: str, clients: int) -> Golden | None:
    return next((line for line in _those(selection, workload) if line.clients == clients), None)


def series(figure: str, workload: str) -> dict[str, list[tuple[float, float]]]:
    """Selection -> (clients, figure): the lines of a picture. ``figure`` is one of FIGURES, else ValueError."""
    if figure not in FIGURES:
        raise ValueError(f"{figure!r} was not measured in 1999; those were: {', '.join(FIGURES)}")
    found = {
        selection: [(float(line.clients), float(getattr(line, figure))) for line in _those(selection, workload)]
        for selection in SELECTIONS
    }
    return {selection: points for selection, points in found.items() if points}


def _those(selection: str, workload: str) -> Iterator[Golden]:
    return (line for line in lines() if (line.selection, line.workload) == (selection, workload))
