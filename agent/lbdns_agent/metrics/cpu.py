"""cpu_idle and cpu_steal: how the processors spent the time since the last sample, in %.

With a cgroup's quota: how much of the quota was left, and how long the group was held back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns_agent.cgroup.group import GroupTimes
from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values

_IDLE, _STEAL, _FIELDS = 3, 7, 8  # guest time, which follows, is in user time already


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Clock ticks of all processors since the start; ``steal`` is None before Linux 2.6.11."""

    idle: int
    steal: int | None
    total: int


def parse(text: bytes) -> CpuTimes:
    """The first line of a /proc/stat (proc_stat(5)). Idle doesn't include waiting for I/O. Raises ValueError."""
    fields = text.partition(b"\n")[0].split()
    if len(fields) < 5 or fields[0] != b"cpu":
        raise ValueError("no /proc/stat: it doesn't begin with the times of all processors")
    times = [int(field) for field in fields[1 : _FIELDS + 1]]
    return CpuTimes(times[_IDLE], times[_STEAL] if len(times) > _STEAL else None, sum(times))


def read(host: Host) -> CpuTimes | GroupTimes:
    """The quota's times if there is a quota, else the host's. Raises OSError, ValueError."""
    of_group = host.group.times() if host.group is not None else None
    return of_group or parse(host.proc.read("stat"))


def values(before: CpuTimes | GroupTimes | None, now: CpuTimes | GroupTimes, seconds: float) -> Values:
    """Shares of the time since ``before``; nothing after a change of the quota."""
    if isinstance(now, GroupTimes):
        return _of_quota(before, now, seconds) if isinstance(before, GroupTimes) else {}
    return _of_host(before, now) if isinstance(before, CpuTimes) else {}


def _of_host(before: CpuTimes, now: CpuTimes) -> Values:
    total = now.total - before.total
    if total <= 0:
        return {}
    found = {"cpu_idle": _percent((now.idle - before.idle) / total)}
    if now.steal is not None and before.steal is not None:
        found["cpu_steal"] = _percent((now.steal - before.steal) / total)
    return found


def _of_quota(before: GroupTimes, now: GroupTimes, seconds: float) -> Values:
    if seconds <= 0 or (before.directory, before.quota) != (now.directory, now.quota):
        return {}
    return {
        "cpu_idle": _percent(1 - (now.used - before.used) / (now.quota * seconds)),
        "cpu_steal": _percent((now.throttled - before.throttled) / seconds),
    }


def _percent(share: float) -> float:
    """Idle and waiting times may fall back a little (proc_stat(5)); a quota may be overdrawn for a moment."""
    return 100.0 * min(1.0, max(0.0, share))


SENSOR: Final = Sensor("/proc/stat", read, values)
