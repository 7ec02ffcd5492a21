"""The capacity searches of ``lbdns-load --search``: the trials for each kind of search, and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.capacity_search import (
    ACCURACY,
    Attempt,
    FailureCriteria,
    FrontierPoint,
    SearchResult,
    frontier,
    highest_count,
)
from lbdns_tools.load.load_plan import SPACINGS, ClosedLoop
from lbdns_tools.load.load_study import SECONDS, PlannedRun, closed, mix_of, opened, settings_of, steady
from lbdns_tools.load.result_rows import ResultRow, found_json
from lbdns_tools.load.run_statistics import RunStatistics


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The results of a search (option ``--search``).

    A search for the highest rates sets ``edges``. A search for the highest number of clients or connections sets
    ``found``, a list of (description, result) pairs.
    """

    criteria: FailureCriteria
    edges: tuple[FrontierPoint, ...] = ()
    found: tuple[tuple[str, SearchResult], ...] = ()

    @property
    def successful(self) -> bool:
        """Whether every search found a passing value."""
        return all(found.highest is not None for found in (*(e.found for e in self.edges), *(f for _, f in self.found)))

    def as_json(self) -> list[dict[str, Any]]:
        """Return the results in ``found``. The results in ``edges`` are omitted, because ``result_rows.as_json`` writes
        them."""
        return [{"search": what, **found_json(found)} for what, found in self.found]


def criteria_of(options: Mapping[str, Any]) -> FailureCriteria:
    """Return the failure criteria from the command-line options, with defaults for omitted options."""
    usual = FailureCriteria()
    percentile, limit_s = options["max_latency"] or (usual.percentile, usual.limit_s)
    return FailureCriteria(
        usual.error_percent if options["max_errors"] is None else options["max_errors"],
        percentile,
        limit_s,
        usual.achieved_share if options["min_achieved"] is None else options["min_achieved"] / 100,
    )


def run_search(
    options: Mapping[str, Any], measure: Callable[[PlannedRun], ResultRow], rows: list[ResultRow]
) -> SearchOutcome:
    """Run the requested search.

    ``measure`` runs one trial and returns a result row, which is appended to ``rows``. Raises ConfigError.
    """
    settings, mix, criteria = settings_of(options), mix_of(options), criteria_of(options)
    label, spacing = options["label"] or mix.name, options["spacing"] or SPACINGS[0]
    accuracy = ACCURACY if options["accuracy"] is None else options["accuracy"] / 100
    low, high = options["span"]

    def run_trial(planned: PlannedRun) -> RunStatistics:
        rows.append(measure(planned))
        return rows[-1].figures

    def trial_at(count: int, rate: float) -> RunStatistics:
        """Run a trial that sends ``count`` requests at ``rate`` requests/s."""
        return run_trial(opened(settings, label, mix, steady(rate, None, count, spacing)))

    if options["search"] == "rate":
        edges = frontier(trial_at, criteria, options["connections"], low, high, accuracy)
        return SearchOutcome(criteria, edges=edges)
    for end in (low, high):
        if end != int(end):
            raise ConfigError(f"--range: the numbers of {options['search']} must be whole numbers, not {end:g}")

    def search(attempt: Attempt[int], rate: float) -> SearchResult:
        return highest_count(attempt, criteria, rate, int(low), int(high), accuracy)

    if options["search"] == "connections":
        rates: Sequence[float] = options["rate"]
        found = tuple((f"most connections at {rate:g}/s", search(partial(trial_at, rate=rate), rate)) for rate in rates)
        return SearchOutcome(criteria, found=found)
    load = ClosedLoop(0, options["seconds"] or SECONDS, think_s=options["think"] or 0.0)
    most = search(lambda count: run_trial(closed(settings, label, mix, replace(load, clients=count))), 0.0)
    return SearchOutcome(criteria, found=(("most clients", most),))
