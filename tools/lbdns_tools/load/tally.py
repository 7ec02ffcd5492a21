"""What became of requests: counts, times, servers, seconds. Filled while a run goes on, merged over processes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from lbdns_tools.load.histogram import Histogram, read_histogram

#: Why a request failed. "local": our own limits (ports, descriptors), so not the server's fault
ERRORS: Final = ("refused", "reset", "timeout", "4xx", "5xx", "dns", "protocol", "local")
UNCONNECTED: Final = frozenset({"refused", "dns", "local"})  # there was no connection, whatever time was spent on it
_COUNTS: Final = ("requests", "ok", "bytes", "connections", "retried")
_TIMES: Final = ("latency", "failed_latency", "dns", "connect", "late")


class Tally:
    """Every request that ended, well or not. Times are in seconds."""

    __slots__ = (
        "bytes",  # of bodies, those of failed requests too
        "connect",  # how long connecting took, where a connection was made
        "connections",  # made
        "dns",  # how long resolving took, where something was resolved
        "errors",  # class (of ERRORS) -> how many
        "failed_latency",  # of the failed ones alone; they are in latency as well
        "late",  # how long after its intended start a request was started (open loop)
        "latency",  # of all; a time-out counts with the time it took
        "ok",
        "requests",
        "retried",  # once more on a fresh connection, because a kept one had been closed: no errors
        "seconds",  # second of the run -> [started, ended well, failed]
        "servers",  # address -> [requests, ok]
    )

    def __init__(self) -> None:
        self.requests = self.ok = self.bytes = self.connections = self.retried = 0
        self.errors = dict.fromkeys(ERRORS, 0)
        self.servers: dict[str, list[int]] = defaultdict(_two)
        self.latency, self.failed_latency = Histogram(), Histogram()
        self.dns, self.connect, self.late = Histogram(), Histogram(), Histogram()
        self.seconds: dict[int, list[int]] = defaultdict(_three)

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
        """One request that has ended.

        ``start_s`` is on the run's clock, the intended start in an open loop; ``latency_s`` counts from there.
        ``dns_s`` and ``connect_s``: 0.0 if nothing was resolved and no connection made for this request.
        ``server`` is the address, "" if there was none. ``error`` is one of ERRORS, "" if it went well.
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
            self.seconds[int(start_s + latency_s)][2] += 1
            if server:
                self.servers[server][0] += 1
            return
        self.ok += 1
        self.seconds[int(start_s + latency_s)][1] += 1
        if server:
            counts = self.servers[server]
            counts[0] += 1
            counts[1] += 1

    @property
    def failed(self) -> int:
        return self.requests - self.ok

    @property
    def sum_s(self) -> float:
        """Of all latencies: divided by the time it is how many requests were under way in the mean (Little)."""
        return self.latency.sum

    def series(self) -> list[tuple[int, int, int, int]]:
        """Second, and in it: started, ended well, failed. Without gaps from the first to the last."""
        if not self.seconds:
            return []
        span = range(min(self.seconds), max(self.seconds) + 1)
        return [(second, *self.seconds.get(second, (0, 0, 0))) for second in span]

    def merge(self, other: Tally) -> None:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _TIMES:
            getattr(self, name).merge(getattr(other, name))
        for error, count in other.errors.items():
            self.errors[error] += count
        for server, counts in other.servers.items():
            _add(self.servers[server], counts)
        for second, counts in other.seconds.items():
            _add(self.seconds[second], counts)

    def state(self) -> dict[str, Any]:
        """Plain data: lists, strings and numbers under strings."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            **{name: getattr(self, name).state() for name in _TIMES},
            "errors": dict(self.errors),
            "servers": [[server, *counts] for server, counts in self.servers.items()],
            "seconds": [[second, *counts] for second, counts in self.seconds.items()],
        }


def read_tally(state: Mapping[str, Any]) -> Tally:
    """What ``Tally.state`` gave. Raises ValueError if something is missing or of another kind."""
    tally = Tally()
    try:
        for name in _COUNTS:
            setattr(tally, name, int(state[name]))
        for name in _TIMES:
            setattr(tally, name, read_histogram(state[name]))
        for error, count in state["errors"].items():
            tally.errors[error] += int(count)
        for server, requests, ok in state["servers"]:
            tally.servers[str(server)] = [int(requests), int(ok)]
        for second, started, ok, failed in state["seconds"]:
            tally.seconds[int(second)] = [int(started), int(ok), int(failed)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no tally: {type(error).__name__} at {error}") from None
    return tally


def _two() -> list[int]:
    return [0, 0]


def _three() -> list[int]:
    return [0, 0, 0]


def _add(to: list[int], counts: list[int]) -> None:
    for place, count in enumerate(counts):
        to[place] += count
