"""The status that a web server reports, and the metrics computed from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: What the collector subtracts from busy_workers and from the number of requests in each interval: the agent's own
#: request for the status page
OWN_REQUEST: Final = 1.0
NO_LIMIT: Final = (
    "the web server does not report how many requests it can serve at once; set 'workers = N' in [web-server]"
)


@dataclass(frozen=True)
class WorkerStatus:
    """The requests since the server started, and the numbers of busy and idle workers.

    ``busy`` includes the worker that serves the agent's request for the status page. If ``total`` or ``idle`` is None,
    the server does not report it. ``own`` contains metrics that only this kind of server has.
    """

    total: float | None
    busy: float
    idle: float | None
    own: Mapping[str, float] = field(default_factory=dict)


def worker_metrics(before: WorkerStatus | None, now: WorkerStatus, seconds: float) -> Mapping[str, float | str]:
    """Return the metrics for the time between two readings.

    The request rate is computed from the increase in the number of requests, which a server restart resets to 0.
    """
    found: dict[str, float | str] = {"busy_workers": now.busy, **now.own}
    found["idle_workers"] = NO_LIMIT if now.idle is None else now.idle
    if now.total is None:
        why = "the status page has no 'Total Accesses'; set 'ExtendedStatus On'"
        found["requests_total"] = found["requests_per_s"] = why
        return found
    found["requests_total"] = now.total
    if before is not None and before.total is not None and now.total >= before.total and seconds > 0:
        found["requests_per_s"] = (now.total - before.total) / seconds
    return found
