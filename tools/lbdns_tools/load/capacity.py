"""The capacity searches of ``lbdns-load``: what is tried at each step, and what is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from lbdns.errors import ConfigError
from lbdns_tools.load.figures import Figures
from lbdns_tools.load.output import Row, found_json
from lbdns_tools.load.plan import Closed
from lbdns_tools.load.search import Criteria, Edge, Found, frontier, highest_count
from lbdns_tools.load.study import SECONDS, Planned, closed, mix_of, opened, settings_of, spacing_of, steady

ACCURACY: Final = 0.05  # of what is found


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found: rates by the number of connections, or counts by what was asked."""

    criteria: Criteria
    edges: tuple[Edge, ...] = ()
    found: tuple[tuple[str, Found], ...] = ()

    @property
    def successful(self) -> bool:
        """Whether every search found something that holds."""
        return all(found.highest is not None for found in (*(e.found for e in self.edges), *(f for _, f in self.found)))

    def as_json(self) -> list[dict[str, Any]]:
        """The searches for counts; frontiers stand in the document of the rows already."""
        return [{"search": what, **found_json(found)} for what, found in self.found]


def criteria_of(said: Mapping[str, Any]) -> Criteria:
    """What failing is; options that were not given leave the usual."""
    usual = Criteria()
    percentile, limit_s = said["max_latency"] or (usual.percentile, usual.limit_s)
    return Criteria(
        usual.error_percent if said["max_errors"] is None else said["max_errors"],
        percentile,
        limit_s,
        usual.achieved_share if said["min_achieved"] is None else said["min_achieved"] / 100,
    )


def search(said: Mapping[str, Any], measure: Callable[[Planned], Row], rows: list[Row]) -> Searched:
    """Do what ``--search`` says. ``measure`` runs one trial, which is added to ``rows``. Raises ConfigError."""
    settings, mix, criteria = settings_of(said), mix_of(said), criteria_of(said)
    label, spacing = said["label"] or mix.name, spacing_of(said)
    accuracy = ACCURACY if said["accuracy"] is None else said["accuracy"] / 100
    low, high = said["span"]

    def tried(planned: Planned) -> Figures:
        rows.append(measure(planned))
        return rows[-1].figures

    def at(count: int, rate: float) -> Figures:
        """So many connections at a rate: a kept connection would carry several requests, so requests are counted."""
        return tried(opened(settings, label, mix, steady(rate, None, count, spacing)))

    if said["search"] == "rate":
        edges = frontier(at, criteria, said["connections"], low, high, accuracy)
        return Searched(criteria, edges=edges)
    for end in (low, high):
        if end != int(end):
            raise ConfigError(f"--range: {end:g} is no number of {said['search']}; write whole numbers")
    found: list[tuple[str, Found]] = []
    if said["search"] == "connections":
        for rate in said["rate"]:
            what = f"most connections at {rate:g}/s"
            most = highest_count(partial(at, rate=rate), criteria, rate, int(low), int(high), accuracy)
            found.append((what, most))
    else:
        seconds, think_s = said["seconds"] or SECONDS, said["think"] or 0.0
        most = highest_count(
            lambda count: tried(closed(settings, label, mix, Closed(count, seconds, think_s=think_s))),
            criteria, 0.0, int(low), int(high), accuracy,
        )  # fmt: skip
        found.append(("most clients", most))
    return Searched(criteria, found=tuple(found))
