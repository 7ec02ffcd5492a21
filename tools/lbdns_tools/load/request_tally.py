"""Counts requests and errors (in total, by server and by second), and records latencies. Sans-I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lbdns_tools.load.latency_histogram import LatencyHistogram

#: Kinds of failure. "local": a limit of this machine (ports, descriptors), so not the server's fault
ERRORS: Final = ("refused", "reset", "timeout", "4xx", "5xx", "dns", "protocol", "local")
UNCONNECTED: Final = frozenset({"refused", "dns", "local"})  # failures before a connection existed
#: Causes of failures of the kind "local": no free source port, file descriptor, allowed connection or kernel memory
LOCAL_CAUSES: Final = ("port", "descriptor", "connection", "memory")
_COUNTS: Final = ("requests", "ok", "bytes", "connections", "retried")
_TIMES: Final = ("latency", "failed_latency", "dns", "connect", "late", "response", "transfer", "tls")


class RequestTally:
    """The counts and times of all completed requests, both successful and failed. Times are in seconds."""

    __slots__ = (
        "bytes",  # of bodies, including those of failed requests
        "connect",  # connect times of new connections
        "connections",  # made
        "dns",  # times of lookups
        "errors",  # kind (of ERRORS) -> count
        "failed_latency",  # of failed requests alone, which are also in latency
        "late",  # time between due and actual start of each request (open loop)
        "latency",  # of all requests; a timeout counts with the time it took
        "local",  # cause (of LOCAL_CAUSES) -> failures of the kind "local"
        "ok",
        "requests",
        "response",  # time from sending a request to the first byte of its response
        "retried",  # on a new connection, because a kept one had been closed; not an error
        "seconds",  # second of the run -> [started, successful, failed]
        "servers",  # address or ADDRESS:PORT -> [requests, ok]
        "statuses",  # status code -> complete responses
        "tls",  # durations of TLS handshakes
        "transfer",  # time from the first to the last byte of each complete response
    )

    def __init__(self) -> None:
        self.requests = self.ok = self.bytes = self.connections = self.retried = 0
        self.errors = dict.fromkeys(ERRORS, 0)
        self.servers: dict[str, list[int]] = defaultdict(partial(list, (0, 0)))
        self.latency, self.failed_latency = LatencyHistogram(), LatencyHistogram()
        self.dns, self.connect, self.late = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
        self.tls = LatencyHistogram()
        self.response, self.transfer = LatencyHistogram(), LatencyHistogram()
        self.seconds: dict[int, list[int]] = defaultdict(partial(list, (0, 0, 0)))
        self.statuses: dict[int, int] = defaultdict(int)
        self.local = dict.fromkeys(LOCAL_CAUSES, 0)

    def add(
        self,
        start_s: float,
        latency_s: float,
        dns_s: float,
        connect_s: float,
        bytes: int,
        server: str,
        error: str = "",
        late_s: float = 0.0,
    ) -> None:
        """Count one completed request.

        ``start_s`` is the start of the request in seconds since the start of the run. In an open loop, ``start_s`` is
        the time at which the request was due. ``latency_s`` is measured from ``start_s``. ``dns_s`` is 0.0 if the
        request needed no lookup. ``connect_s`` is 0.0 if the request opened no connection. ``server`` is the server's
        address, or "" if no server was reached. ``error`` is one of ERRORS, or "" on success.
        """
        self.requests += 1
        self.bytes += bytes
        self.latency.add(latency_s)
        self.late.add(late_s)
        if dns_s:
            self.dns.add(dns_s)
        if connect_s and error not in UNCONNECTED:
            self.connections += 1
            self.connect.add(connect_s)
        self.seconds[int(start_s)][0] += 1
        if error:
            self.errors[error] += 1
            self.failed_latency.add(latency_s)
        else:
            self.ok += 1
        self.seconds[int(start_s + latency_s)][2 if error else 1] += 1
        if server:
            counts = self.servers[server]
            counts[0] += 1
            counts[1] += not error

    def add_response(self, status: int, response_s: float, transfer_s: float) -> None:
        """Count the complete response of a request that ``add`` counts."""
        self.statuses[status] += 1
        self.response.add(response_s)
        self.transfer.add(transfer_s)

    def add_local(self, cause: str) -> None:
        """Count the cause, one of LOCAL_CAUSES, of a request that ``add`` counts with the error "local"."""
        self.local[cause] += 1

    @property
    def failed(self) -> int:
        return self.requests - self.ok

    def series(self) -> list[tuple[int, int, int, int]]:
        """Return (second, started, successful, failed) for each second of the run, including seconds without
        requests."""
        if not self.seconds:
            return []
        span = range(min(self.seconds), max(self.seconds) + 1)
        return [(second, *self.seconds.get(second, (0, 0, 0))) for second in span]

    def merge(self, other: RequestTally) -> None:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _TIMES:
            getattr(self, name).merge(getattr(other, name))
        for error, count in other.errors.items():
            self.errors[error] += count
        for status, count in other.statuses.items():
            self.statuses[status] += count
        for cause, count in other.local.items():
            self.local[cause] += count
        for server, counts in other.servers.items():
            _add(self.servers[server], counts)
        for second, counts in other.seconds.items():
            _add(self.seconds[second], counts)

    def state(self) -> dict[str, Any]:
        """Return the tally as plain data that JSON can represent."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            **{name: getattr(self, name).state() for name in _TIMES},
            "errors": dict(self.errors),
            "local": dict(self.local),
            "statuses": [[status, count] for status, count in sorted(self.statuses.items())],
            "servers": [[server, *counts] for server, counts in self.servers.items()],
            "seconds": [[second, *counts] for second, counts in self.seconds.items()],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RequestTally:
        """Return the tally from which ``state`` was made."""
        tally = cls()
        for name in _COUNTS:
            setattr(tally, name, state[name])
        for name in _TIMES:
            setattr(tally, name, LatencyHistogram.from_state(state[name]))
        tally.errors.update(state["errors"])
        tally.local.update(state["local"])
        tally.statuses.update({int(status): count for status, count in state["statuses"]})
        for server, *counts in state["servers"]:
            tally.servers[server] = counts
        for second, *counts in state["seconds"]:
            tally.seconds[second] = counts
        return tally


def _add(to: list[int], counts: list[int]) -> None:
    for place, count in enumerate(counts):
        to[place] += count
