"""The capacity searches of ``lbdns-load --search``: the trials of each kind of search, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.capacity_search import (
    ACCURACY,
    FailureCriteria,
    FrontierPoint,
    SearchResult,
    frontier,
    highest_count,
)
from lbdns_tools.load.load_plan import ClosedLoop
from lbdns_tools.load.load_study import SECONDS, PlannedRun, closed, mix_of, opened, settings_of, spacing_of, steady
from lbdns_tools.load.result_rows import ResultRow, found_json
from lbdns_tools.load.run_statistics import RunStatistics


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The outcome of a search: rates by number of connections, or counts by their description."""

    criteria: FailureCriteria
    edges: tuple[FrontierPoint, ...] = ()
    found: tuple[tuple[str, SearchResult], ...] = ()

    @property
    def successful(self) -> bool:
        """Whether every search found a value that passes."""
        return all(found.highest is not None for found in (*(e.found for e in self.edges), *(f for _, f in self.found)))

    def as_json(self) -> list[dict[str, Any]]:
        """Return the searches for counts; the document of the rows contains the frontier."""
        return [{"search": what, **found_json(found)} for what, found in self.found]


def criteria_of(said: Mapping[str, Any]) -> FailureCriteria:
    """Return the failure criteria of a command line; options that are not given keep their defaults."""
    usual = FailureCriteria()
    percentile, limit_s = said["max_latency"] or (usual.percentile, usual.limit_s)
    return FailureCriteria(
        usual.error_percent if said["max_errors"] is None else said["max_errors"],
        percentile,
        limit_s,
        usual.achieved_share if said["min_achieved"] is None else said["min_achieved"] / 100,
    )


def run_search(
    said: Mapping[str, Any], measure: Callable[[PlannedRun], ResultRow], rows: list[ResultRow]
) -> SearchOutcome:
    """Run the search of a command line. ``measure`` runs a trial; its row goes to ``rows``. Raises ConfigError."""
    settings, mix, criteria = settings_of(said), mix_of(said), criteria_of(said)
    label, spacing = said["label"] or mix.name, spacing_of(said)
    accuracy = ACCURACY if said["accuracy"] is None else said["accuracy"] / 100
    low, high = said["span"]

    def tried(planned: PlannedRun) -> RunStatistics:
        rows.append(measure(planned))
        return rows[-1].figures

    def at(count: int, rate: float) -> RunStatistics:
        """Run a trial with ``count`` requests at a rate, each of which opens a connection."""
        return tried(opened(settings, label, mix, steady(rate, None, count, spacing)))

    if said["search"] == "rate":
        edges = frontier(at, criteria, said["connections"], low, high, accuracy)
        return SearchOutcome(criteria, edges=edges)
    for end in (low, high):
        if end != int(end):
            raise ConfigError(f"--range: the number of {said['search']} must be a whole number, not {end:g}")
    found: list[tuple[str, SearchResult]] = []
    if said["search"] == "connections":
        for rate in said["rate"]:
            what = f"most connections at {rate:g}/s"
            most = highest_count(partial(at, rate=rate), criteria, rate, int(low), int(high), accuracy)
            found.append((what, most))
    else:
        seconds, think_s = said["seconds"] or SECONDS, said["think"] or 0.0
        most = highest_count(
            lambda count: tried(closed(settings, label, mix, ClosedLoop(count, seconds, think_s=think_s))),
            criteria, 0.0, int(low), int(high), accuracy,
        )  # fmt: skip
        found.append(("most clients", most))
    return SearchOutcome(criteria, found=tuple(found))
