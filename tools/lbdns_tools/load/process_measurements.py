"""Combines the measurements of load processes, and checks whether the load generator was the bottleneck. Pure."""

from __future__ import annotations

import errno
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from lbdns_shared.endpoint import Endpoint, parse_endpoint
from lbdns_tools.load.load_plan import LoadRun
from lbdns_tools.load.request_tally import RequestTally

BUSY: Final = 0.95  # share of one core while sending: queues in a process grow long even below 1
QUARTERS: Final = 4
GROWING: Final = 2.0  # ratio of lateness in the last quarter to the first
LATE_S: Final = 0.01  # smaller lateness is normal on a machine with other work
_PORTS: Final = (errno.EADDRNOTAVAIL, errno.EADDRINUSE)
_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


class StartLateness:
    """Measures how late requests start. The time from the warm-up to the end of sending is divided into quarters, and
    each quarter has its own mean."""

    __slots__ = ("_begin_s", "_length_s", "counts", "sums")

    def __init__(self, begin_s: float, end_s: float) -> None:
        self._begin_s, self._length_s = begin_s, end_s - begin_s
        self.sums = [0.0] * QUARTERS
        self.counts = [0] * QUARTERS

    def add(self, start_s: float, late_s: float) -> None:
        quarter = int((start_s - self._begin_s) / self._length_s * QUARTERS) if self._length_s > 0 else 0
        quarter = min(max(quarter, 0), QUARTERS - 1)
        self.sums[quarter] += late_s
        self.counts[quarter] += 1

    def means(self) -> tuple[float, ...]:
        return tuple(total / count if count else 0.0 for total, count in zip(self.sums, self.counts, strict=True))


@dataclass(frozen=True, slots=True)
class ProcessMeasurement:
    """The measurement of one load process. Times are in seconds since the start of the run."""

    tally: RequestTally
    ok_in_window: int  # requests that succeeded between the warm-up and the end of sending, whenever they started
    last_ok: float  # end of the last successful request
    last_end: float  # end of the last request, successful or not
    cpu_share: float  # of one core, while sending
    late_s: tuple[float, ...]  # mean lateness in each quarter
    local: Mapping[int, int]  # failures on this machine, by errno
    held_back: int  # requests that waited for one of max_connections
    max_connections: int
    owners: Mapping[str, Set[str]]  # address -> names that own the address in DNS answers


@dataclass(frozen=True, slots=True)
class RunResult:
    """The combined result of one run across all load processes."""

    tally: RequestTally
    seconds: float  # divide counts by this to get rates
    saturation: str  # why the load generator was the limit; "" if it was not
    processes: tuple[ProcessMeasurement, ...]
    interrupted: bool  # by Ctrl-C
    begun: float  # Unix time of the run's second 0
    names: Mapping[str, str]  # server, as in tally.servers -> name; only servers with a name of their own


def combine(run: LoadRun, parts: Sequence[ProcessMeasurement], begun: float, stopped_at: float = math.inf) -> RunResult:
    """Combine the measurements of all load processes into the result of a run.

    ``stopped_at`` is the time when Ctrl-C ended the run, in seconds since the start of the run.
    """
    tally = RequestTally()
    for part in parts:
        tally.merge(part.tally)
    seconds = measured_seconds(run, parts, tally.ok, stopped_at)
    return RunResult(
        tally, seconds, saturation(parts), tuple(parts), stopped_at < math.inf, begun, _names(tally, parts)
    )


def _names(tally: RequestTally, parts: Sequence[ProcessMeasurement]) -> dict[str, str]:
    """Return the names of those servers in ``tally`` that have exactly one name with exactly one address.

    A pool that answers with addresses instead of aliases uses one name for several servers, so the name does not
    identify a server.
    """
    owners: dict[str, set[str]] = {}
    addresses: dict[str, set[str]] = {}
    for part in parts:
        for address, names in part.owners.items():
            owners.setdefault(address, set()).update(names)
            for name in names:
                addresses.setdefault(name, set()).add(address)
    found = {}
    for server in tally.servers:
        endpoint = Endpoint(server, 0)
        if not endpoint.is_address:
            endpoint = parse_endpoint(server, 0)
        names = owners.get(endpoint.host, set())
        if len(names) == 1 and len(addresses[name := next(iter(names))]) == 1:
            found[server] = str(Endpoint(name, endpoint.port)) if endpoint.port else name
    return found


def measured_seconds(run: LoadRun, parts: Sequence[ProcessMeasurement], ok: int, stopped_at: float = math.inf) -> float:
    """Return the duration in seconds by which request counts are divided to obtain rates.

    Every request that starts before the end of sending counts, even if its response arrives later. If a server cannot
    keep up, the last responses arrive long after the end of sending. If the duration extended to the last response, a
    single slow request would distort the rates. Therefore, the response rate is measured between the end of the warm-up
    and the end of sending. The duration is the number of all counted responses divided by this rate. If ``requests``
    ends the run, the duration is the time until the last response.
    """
    last_ok = max((part.last_ok for part in parts), default=0.0)
    last_end = max((part.last_end for part in parts), default=0.0)
    end = min(run.seconds, stopped_at)
    by_requests = any(phase.load.requests for phase in run.phases)
    if math.isinf(end) or (by_requests and last_end < end):
        return max(0.0, (last_ok or last_end) - run.warm_up_s)
    window = max(0.0, end - run.warm_up_s)
    in_window = sum(part.ok_in_window for part in parts)
    until_last = max(window, last_ok - run.warm_up_s)
    return min(window * ok / in_window, until_last) if in_window and ok else until_last


def saturation(parts: Sequence[ProcessMeasurement]) -> str:
    """Return the reason why the load generator was the bottleneck, or "" if it was fast enough.

    The check prevents users from mistaking the load generator's limits for the server's limits.
    """
    reasons = []
    ports, descriptors = (
        sum(part.local.get(code, 0) for part in parts for code in codes) for codes in (_PORTS, _DESCRIPTORS)
    )
    if ports:
        reasons.append(
            f"no source port was free for {ports} requests: use --source or widen net.ipv4.ip_local_port_range"
        )
    if descriptors:
        reasons.append(f"no file descriptor was free for {descriptors} requests: raise the limit (ulimit -n)")
    others = sum(sum(part.local.values()) for part in parts) - ports - descriptors
    if others:
        reasons.append(f"{others} requests failed because the kernel ran out of memory")
    busy = [number for number, part in enumerate(parts, 1) if part.cpu_share >= BUSY]
    if busy:
        share = max(part.cpu_share for part in parts)
        which = f"process {busy[0]} of {len(parts)}" if len(busy) == 1 else f"{len(busy)} of {len(parts)} processes"
        reasons.append(f"{which} used {100 * share:.0f} % of a core: use more --processes or more machines")
    late = max((part.late_s for part in parts), key=lambda quarters: quarters[-1], default=(0.0,))
    if late[-1] >= max(LATE_S, GROWING * late[0]):  # requests are due faster than this machine starts them
        delay = f"{1000 * late[-1]:.0f} ms"
        reasons.append(
            f"at the end of the run, requests started {delay} late, and the delay was growing: use more --processes"
        )
    held = sum(part.held_back for part in parts)
    if held:
        limit = sum(part.max_connections for part in parts)
        reasons.append(f"{held} requests waited because all {limit} connections were in use: raise --max-connections")
    return "; ".join(reasons)
