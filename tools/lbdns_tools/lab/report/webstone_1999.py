"""Reads the nine 1999 WebStone tables from facts/webstone_1999.csv, for comparison with new results."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Final

FILE: Final = "facts/webstone_1999.csv"
STUDY: Final = "webstone"  # the study that repeats the measurements of the tables
SELECTIONS: Final = ("single", "round_robin", "best")
WORKLOADS: Final = ("html", "cgi", "mixed")


@dataclass(frozen=True, slots=True)
class WebStone1999Row:
    """A row of a 1999 WebStone table. The fields have the same names as the columns of results.csv."""

    table: str
    selection: str
    workload: str
    clients: int
    connections_per_s: float
    littles_load_factor: float
    mean_latency_s: float
    error_percent: float
    throughput_mbit_per_s: float


#: The measured columns of a line
FIGURES: Final = tuple(field.name for field in fields(WebStone1999Row) if field.type == "float")


@cache
def lines() -> tuple[WebStone1999Row, ...]:
    """Return the rows of all tables from 1999, ordered by table and number of clients."""
    text = resources.files("lbdns_tools.lab").joinpath(FILE).read_text("utf-8")
    return tuple(
        WebStone1999Row(line["table"], line["selection"], line["workload"], int(line["clients"]),
               *(float(line[name]) for name in FIGURES))
        for line in csv.DictReader(text.splitlines())
    )  # fmt: skip


def table_of(selection: str, workload: str) -> str | None:
    """Return the name of the 1999 table for a selection and a workload, or None if no such table exists."""
    return next((line.table for line in _those(selection, workload)), None)


def line_of(selection: str, workload: str, clients: int) -> WebStone1999Row | None:
    return next((line for line in _those(selection, workload) if line.clients == clients), None)


def series(figure: str, workload: str) -> dict[str, list[tuple[float, float]]]:
    """Return the (clients, value) pairs of a figure, keyed by selection. Raises ValueError unless ``figure`` is in
    FIGURES."""
    if figure not in FIGURES:
        raise ValueError(f"{figure!r} was not measured in 1999; the 1999 figures are {', '.join(FIGURES)}")
    found = {
        selection: [(float(line.clients), float(getattr(line, figure))) for line in _those(selection, workload)]
        for selection in SELECTIONS
    }
    return {selection: points for selection, points in found.items() if points}


def _those(selection: str, workload: str) -> Iterator[WebStone1999Row]:
    return (line for line in lines() if (line.selection, line.workload) == (selection, workload))
