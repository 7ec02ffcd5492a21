"""The result rows of the load generator, and their conversion to CSV and JSON. Each row is the result of one repetition
of a load.

docs/reference/load.md describes every column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from lbdns_tools.load.capacity_search import FrontierPoint, SearchResult
from lbdns_tools.load.request_tally import ERRORS, LOCAL_CAUSES, RequestTally
from lbdns_tools.load.run_statistics import NUMBERS, STATUSES, RunStatistics, spread

#: Column names shared with the results of 1999; the other columns are named as in RunStatistics
WEBSTONE: Final[Mapping[str, str]] = {
    "connections_per_s": "connections_per_s",
    "littles_load_factor": "littles_load_factor",
    "mean_latency_s": "mean_s",
    "error_percent": "error_percent",
    "throughput_mbit_per_s": "mbit_per_s",
}
OTHERS: Final = tuple(name for name in NUMBERS if name not in WEBSTONE.values())


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """A load to be measured, with the clients' resolve rule and use of keep-alive."""

    label: str  # name of the run or of its phases
    clients: int | None  # in closed loops; None without closed loops
    rate_per_s: float | None  # of open loops; None without open loops
    resolve: str
    keep_alive: bool


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The result of one repetition of a load."""

    point: LoadPoint
    repetition: int  # from 1
    figures: RunStatistics
    tally: RequestTally
    begun: float | None = None  # Unix time of the run's second 0

    def as_json(self) -> dict[str, Any]:
        return {
            "repetition": self.repetition,
            "begun": self.begun,
            "seconds": self.figures.seconds,
            **self.figures.as_json(),
            "tally": self.tally.state(),
        }


def by_point(rows: Sequence[ResultRow]) -> dict[LoadPoint, list[ResultRow]]:
    """Group the rows by load point, preserving their order."""
    points: dict[LoadPoint, list[ResultRow]] = {}
    for row in rows:
        points.setdefault(row.point, []).append(row)
    return points


def swept(rows: Sequence[ResultRow]) -> str:
    """Return "clients" or "rate_per_s", whichever is set in all rows, or "" if neither is."""
    names = ("clients", "rate_per_s")
    return next((name for name in names if all(getattr(row.point, name) is not None for row in rows)), "")


def server_labels(rows: Sequence[ResultRow]) -> dict[str, str]:
    """Return a label for each server that received requests, sorted by label: the server's name, or its address if it
    has none.

    Labels omit the domain if the host names alone are unique.
    """
    servers = {server for row in rows for server in row.figures.shares}
    found = {server: {name for row in rows if (name := row.figures.names.get(server))} for server in servers}
    names = {server: each.pop() for server, each in found.items() if len(each) == 1}
    hosts = {server: _without_domain(name) for server, name in names.items()}
    labels = hosts if len(set(hosts.values())) == len(hosts) else names
    return dict(sorted(((s, labels.get(s, s)) for s in servers), key=lambda item: (item[1], item[0])))


def _without_domain(name: str) -> str:
    host, colon, port = name.partition(":")
    return host.partition(".")[0] + colon + port


def as_json(
    rows: Sequence[ResultRow], failures: Sequence[str] = (), edges: Sequence[FrontierPoint] = ()
) -> dict[str, Any]:
    """Return the document that --json writes. Statistics without a result are null."""
    document: dict[str, Any] = {
        "points": [
            asdict(point) | asdict(spread([row.figures for row in runs])) | {"runs": [row.as_json() for row in runs]}
            for point, runs in by_point(rows).items()
        ],
        "failed_thresholds": list(failures),
    }
    if edges:
        document["frontier"] = [{"connections": edge.connections, **found_json(edge.found)} for edge in edges]
    return document


def found_json(found: SearchResult) -> dict[str, Any]:
    """Return the JSON object for the result of one capacity search."""
    return {
        "highest": found.highest,
        "ending": found.ending,
        "why": found.why,
        "figures": found.figures.as_json() if found.figures else None,
        "trials": [{"value": trial.value, "why": trial.why} for trial in found.trials],
    }


def columns(row: ResultRow) -> dict[str, Any]:
    """Return the values of the CSV columns in order, excluding the servers' shares.

    None means that there is no result or that the column does not apply.
    """
    point, figures = row.point, row.figures
    return {
        "clients": point.clients,
        **{column: figures.number(name) for column, name in WEBSTONE.items()},
        "label": point.label,
        "repetition": row.repetition,
        "rate_per_s": point.rate_per_s,
        "resolve": point.resolve,
        "keep_alive": int(point.keep_alive),
        "seconds": figures.seconds,
        "requests": figures.requests,
        "ok": figures.ok,
        **{name: figures.number(name) for name in OTHERS},
        **{f"errors_{error}": figures.errors[error] for error in ERRORS},
        **{f"local_{cause}": figures.local[cause] for cause in LOCAL_CAUSES},
        **{f"status_{name}": figures.statuses[name] for name in STATUSES},
        "retried": figures.retried,
        "saturated": figures.saturated,
    }


def as_csv(rows: Sequence[ResultRow]) -> str:
    """Return CSV with a line per load and repetition, and a share column per server. An empty field means no result."""
    servers = sorted({server for row in rows for server in row.figures.shares})
    lines = [
        {
            **columns(row),
            # A server without requests has a share of 0; if a run reached no server, no server has a share
            **{f"share_{s}": row.figures.shares.get(s, 0.0) if row.figures.shares else None for s in servers},
        }
        for row in rows
    ]
    return _csv(lines[0] if lines else (), (line.values() for line in lines))


def frontier_csv(edges: Sequence[FrontierPoint]) -> str:
    """Return a CSV document with one line per number of connections. An empty field means no result."""
    lines = []
    for edge in edges:
        found = edge.found
        numbers = [found.figures.number(name) if found.figures else None for name in NUMBERS]
        lines.append([edge.connections, found.highest, found.ending, found.why, len(found.trials), *numbers])
    return _csv(["connections", "highest_rate_per_s", "ending", "why", "trials", *NUMBERS], lines)


def _csv(header: Iterable[str], lines: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")  # writes None as an empty field
    writer.writerow(header)
    for line in lines:
        writer.writerow(f"{value:.9g}" if isinstance(value, float) else value for value in line)
    return text.getvalue()
