"""Whether the load generator itself was the limit, and by what: or its figures pass for the server's. Pure."""

from __future__ import annotations

import errno
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BUSY: Final = 0.95  # of one core, over the time of sending: queues in a process are long long before 1
QUARTERS: Final = 4
GROWING: Final = 2.0  # times as late in the last quarter as in the first
LATE_S: Final = 0.01  # late starts below are no finding: a machine with other work has them
_PORTS: Final = (errno.EADDRNOTAVAIL, errno.EADDRINUSE)
_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


class Lateness:
    """How late requests were started, in each quarter of the time from the warm-up to the end of sending."""

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

    def means(self) -> list[float]:
        return [total / count if count else 0.0 for total, count in zip(self.sums, self.counts, strict=True)]


@dataclass(frozen=True, slots=True)
class Strain:
    """What one process met. ``cpu_share`` of one core; ``late_s`` the mean of each quarter; ``local`` by errno;
    ``held_back`` requests that waited for one of ``max_connections``."""

    cpu_share: float
    late_s: tuple[float, ...]
    local: Mapping[int, int]
    held_back: int
    max_connections: int


def saturation(strains: Sequence[Strain]) -> str:
    """Why the generator was the limit, "" if it was not."""
    reasons = []
    ports = sum(strain.local.get(code, 0) for strain in strains for code in _PORTS)
    if ports:
        reasons.append(
            f"{ports} requests found no free source port: give more --source addresses, or a wider "
            "net.ipv4.ip_local_port_range"
        )
    descriptors = sum(strain.local.get(code, 0) for strain in strains for code in _DESCRIPTORS)
    if descriptors:
        reasons.append(f"{descriptors} requests found no free descriptor: raise the limit (ulimit -n)")
    others = sum(sum(strain.local.values()) for strain in strains) - ports - descriptors
    if others:
        reasons.append(f"the kernel had no memory for {others} requests")
    busy = [number for number, strain in enumerate(strains, 1) if strain.cpu_share >= BUSY]
    if busy:
        share = max(strain.cpu_share for strain in strains)
        of = f"process {busy[0]}" if len(busy) == 1 else f"{len(busy)} processes"
        reasons.append(f"{of} of {len(strains)} used {100 * share:.0f} % of a core: more --processes, or more machines")
    late = _late(strains)
    if late:
        reasons.append(late)
    held = sum(strain.held_back for strain in strains)
    if held:
        limit = sum(strain.max_connections for strain in strains)
        reasons.append(f"{held} requests waited for one of {limit} connections: raise --max-connections")
    return "; ".join(reasons)


def _late(strains: Sequence[Strain]) -> str:
    """Lateness that grows is a queue that does: requests come faster than this machine starts them."""
    worst = max(strains, key=lambda strain: strain.late_s[-1], default=None)
    if worst is None or worst.late_s[-1] < LATE_S or math.isnan(worst.late_s[-1]):
        return ""
    if worst.late_s[-1] < GROWING * worst.late_s[0]:
        return ""
    return f"requests were started {1000 * worst.late_s[-1]:.0f} ms late at last, and ever later: fewer per process"
