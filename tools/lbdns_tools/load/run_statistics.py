"""Statistics of a load run: rates, latencies, errors and shares. A statistic without a result is None, not 0. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, Final

from lbdns_tools.load.request_tally import RequestTally


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """Statistics of one run. Times are in seconds. Percentiles and means include failed requests."""

    seconds: float  # measured
    requests: int  # completed or failed
    ok: int
    retried: int
    connections_per_s: float | None
    requests_per_s: float | None  # successful ones
    littles_load_factor: float | None  # mean number of requests under way: the sum of latencies divided by the time
    mean_s: float | None
    min_s: float | None
    p25_s: float | None
    p50_s: float | None
    p75_s: float | None
    p90_s: float | None
    p95_s: float | None
    p99_s: float | None
    max_s: float | None
    error_percent: float | None
    mbit_per_s: float | None
    failed_mean_s: float | None  # of the failed requests alone
    rate_min_per_s: float | None  # successful requests in the seconds of the run, see _rates
    rate_max_per_s: float | None
    rate_deviation_per_s: float | None
    response_mean_s: float | None  # from sending a request to the first byte of its response
    response_p95_s: float | None
    transfer_mean_s: float | None  # from the first to the last byte of a response
    transfer_p95_s: float | None
    connect_mean_s: float | None
    connect_p95_s: float | None
    tls_mean_s: float | None  # of TLS handshakes
    tls_p95_s: float | None
    dns_mean_s: float | None
    dns_p95_s: float | None
    late_p99_s: float | None  # how late requests were sent; None in a closed loop, where no request can be late
    errors: Mapping[str, int]  # by kind, all of request_tally.ERRORS
    shares: Mapping[str, float]  # of the requests that reached a server, by its address
    statuses: Mapping[str, int]  # complete responses, by class of the status, all of STATUSES
    local: Mapping[str, int]  # errors of the kind "local", by cause, all of request_tally.LOCAL_CAUSES
    saturated: str = ""  # why the load generator itself was the limit; "" if it was not
    names: Mapping[str, str] = field(default_factory=dict)  # address, as in shares -> name, if it has one of its own

    @property
    def failed(self) -> int:
        return self.requests - self.ok

    def number(self, name: str) -> float | None:
        """Return the statistic ``name``, which must be in NUMBERS, COUNTS or ERRORS. Raises KeyError for other
        names."""
        if name in self.errors:
            return self.errors[name]
        if name not in NUMBERS and name not in COUNTS:
            raise KeyError(name)
        value: float | None = getattr(self, name)
        return value

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in (*COUNTS, *NUMBERS)},
            "errors": dict(self.errors),
            "statuses": dict(self.statuses),
            "local": dict(self.local),
            "shares": dict(self.shares),
            "names": dict(self.names),
            "saturated": self.saturated,
        }


COUNTS: Final = ("requests", "ok", "failed", "retried")
STATUSES: Final = ("2xx", "3xx", "4xx", "5xx")
#: Statistics that have a mean and a deviation over repetitions, and may have no result
NUMBERS: Final = (
    "connections_per_s", "requests_per_s", "littles_load_factor", "mean_s", "min_s", "p25_s", "p50_s", "p75_s",
    "p90_s", "p95_s", "p99_s", "max_s", "error_percent", "mbit_per_s", "failed_mean_s",
    "rate_min_per_s", "rate_max_per_s", "rate_deviation_per_s",
    "response_mean_s", "response_p95_s", "transfer_mean_s", "transfer_p95_s",
    "connect_mean_s", "connect_p95_s", "tls_mean_s", "tls_p95_s", "dns_mean_s", "dns_p95_s", "late_p99_s",
)  # fmt: skip


def run_statistics(
    tally: RequestTally, seconds: float, saturated: str = "", names: Mapping[str, str] | None = None
) -> RunStatistics:
    """Return the statistics of ``tally``.

    Rates are counts divided by ``seconds``. ``names`` maps the servers' addresses to their names.
    """
    measured = tally.requests > 0
    timed = measured and seconds > 0

    def per_second(amount: float) -> float | None:
        return amount / seconds if timed else None

    at: Callable[[float], float | None] = tally.latency.percentile
    rates = _rates(tally)
    reached = sum(requests for requests, _ in tally.servers.values())
    return RunStatistics(
        seconds=seconds,
        requests=tally.requests,
        ok=tally.ok,
        retried=tally.retried,
        connections_per_s=per_second(tally.connections),
        requests_per_s=per_second(tally.ok),
        littles_load_factor=per_second(tally.latency.sum),
        mean_s=tally.latency.mean,
        min_s=tally.latency.shortest,
        p25_s=at(25),
        p50_s=at(50),
        p75_s=at(75),
        p90_s=at(90),
        p95_s=at(95),
        p99_s=at(99),
        max_s=at(100),
        error_percent=100 * tally.failed / tally.requests if measured else None,
        mbit_per_s=per_second(tally.bytes * 8 / 1e6),
        failed_mean_s=tally.failed_latency.mean,
        rate_min_per_s=min(rates) if rates else None,
        rate_max_per_s=max(rates) if rates else None,
        rate_deviation_per_s=stdev(rates) if len(rates) > 1 else None,
        response_mean_s=tally.response.mean,
        response_p95_s=tally.response.percentile(95),
        transfer_mean_s=tally.transfer.mean,
        transfer_p95_s=tally.transfer.percentile(95),
        connect_mean_s=tally.connect.mean,
        connect_p95_s=tally.connect.percentile(95),
        tls_mean_s=tally.tls.mean,
        tls_p95_s=tally.tls.percentile(95),
        dns_mean_s=tally.dns.mean,
        dns_p95_s=tally.dns.percentile(95),
        late_p99_s=tally.late.percentile(99) if tally.late.longest else None,
        errors=dict(tally.errors),
        shares={server: tally.servers[server][0] / reached for server in sorted(tally.servers)} if reached else {},
        statuses={
            name: sum(n for status, n in tally.statuses.items() if f"{status // 100}xx" == name) for name in STATUSES
        },
        local=dict(tally.local),
        saturated=saturated,
        names=dict(names or {}),
    )


def _rates(tally: RequestTally) -> list[int]:
    """Return the number of successful requests in each second in which requests were sent.

    The last second is omitted, because the run may end before it does.
    """
    starting = [second for second, (started, _, _) in tally.seconds.items() if started]
    if not starting:
        return []
    return [tally.seconds.get(second, (0, 0, 0))[1] for second in range(min(starting), max(starting))]


@dataclass(frozen=True, slots=True)
class RepetitionSpread:
    """The mean and the sample standard deviation of each statistic in NUMBERS, across the repetitions of a run.

    A mean is None if no repetition has a result. A deviation is None if fewer than two repetitions have a result.
    """

    repetitions: int
    measured: int  # repetitions in which at least one request ended
    mean: Mapping[str, float | None]
    deviation: Mapping[str, float | None]


def spread(repetitions: Sequence[RunStatistics]) -> RepetitionSpread:
    """Return the means and standard deviations across ``repetitions``. Raises ValueError if ``repetitions`` is
    empty."""
    if not repetitions:
        raise ValueError("statistics across repetitions require at least one repetition")
    found = {name: [value for each in repetitions if (value := each.number(name)) is not None] for name in NUMBERS}
    return RepetitionSpread(
        repetitions=len(repetitions),
        measured=sum(each.requests > 0 for each in repetitions),
        mean={name: fmean(values) if values else None for name, values in found.items()},
        deviation={name: stdev(values) if len(values) > 1 else None for name, values in found.items()},
    )
