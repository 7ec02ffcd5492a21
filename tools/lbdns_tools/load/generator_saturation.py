"""Determine whether the load generator was the limit, and why, so that its limits do not pass for the server's."""

from __future__ import annotations

import errno
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BUSY: Final = 0.95  # share of one core while sending: queues in a process grow long before 1
QUARTERS: Final = 4
GROWING: Final = 2.0  # ratio of lateness in the last quarter to the first
LATE_S: Final = 0.01  # smaller lateness is normal on a machine with other work
_PORTS: Final = (errno.EADDRNOTAVAIL, errno.EADDRINUSE)
_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


class StartLateness:
    """How late requests started, in each quarter of the time between the warm-up and the end of sending."""

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
class ProcessStrain:
    """Strain on one process: CPU as a share of one core, mean lateness of each quarter in s, local failures by errno,
    and the number of requests that waited for one of ``max_connections``."""

    cpu_share: float
    late_s: tuple[float, ...]
    local: Mapping[int, int]
    held_back: int
    max_connections: int


def saturation(strains: Sequence[ProcessStrain]) -> str:
    """Return why the generator was the limit, or "" if it was not."""
    reasons = []
    ports = sum(strain.local.get(code, 0) for strain in strains for code in _PORTS)
    if ports:
        reasons.append(
            f"{ports} requests found no free source port: add --source addresses or widen net.ipv4.ip_local_port_range"
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
        reasons.append(
            f"{of} of {len(strains)} used {100 * share:.0f} % of a core: use more --processes or more machines"
        )
    late = _late(strains)
    if late:
        reasons.append(late)
    held = sum(strain.held_back for strain in strains)
    if held:
        limit = sum(strain.max_connections for strain in strains)
        reasons.append(f"{held} requests waited for one of {limit} connections: raise --max-connections")
    return "; ".join(reasons)


def _late(strains: Sequence[ProcessStrain]) -> str:
    """Return a text if lateness grows: then requests are due faster than this machine starts them."""
    worst = max(strains, key=lambda strain: strain.late_s[-1], default=None)
    if worst is None or worst.late_s[-1] < LATE_S or math.isnan(worst.late_s[-1]):
        return ""
    if worst.late_s[-1] < GROWING * worst.late_s[0]:
        return ""
    delay = f"{1000 * worst.late_s[-1]:.0f} ms"
    return f"requests were started {delay} late in the end, and the delay was growing: use more --processes"
