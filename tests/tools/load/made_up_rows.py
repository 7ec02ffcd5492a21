"""Synthetic rows of measurements, for tests of the code that evaluates rows."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from lbdns_tools.load.request_tally import RequestTally
from lbdns_tools.load.result_rows import LoadPoint, ResultRow
from lbdns_tools.load.run_statistics import run_statistics


def tally(requests: int, seed: int = 1, servers: int = 2, failed: float = 0.0) -> RequestTally:
    """Return a tally of requests over 10 s. Their mean latency is 20 ms; a fraction ``failed`` times out after 5 s."""
    chance, made = Random(seed), RequestTally()
    for place in range(requests):
        server = f"198.18.0.{1 + place % servers}"
        bad = chance.random() < failed
        latency = 5.0 if bad else chance.expovariate(50)
        made.add(10 * place / requests, latency, 0.001, 0.002, 5000, server, "timeout" if bad else "")
    return made


def row(
    clients: int | None = 20,
    requests: int = 500,
    *,
    rate: float | None = None,
    label: str = "html",
    repetition: int = 1,
    servers: int = 2,
    failed: float = 0.0,
    keep_alive: bool = False,
    saturated: str = "",
    names: Mapping[str, str] | None = None,
) -> ResultRow:
    made = tally(requests, repetition, servers, failed)
    point = LoadPoint(label, clients, rate, "connection", keep_alive)
    return ResultRow(point, repetition, run_statistics(made, 10.0, saturated, names), made, begun=1e9)
