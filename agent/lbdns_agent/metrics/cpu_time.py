"""cpu_idle and cpu_steal: the percentages of idle and stolen processor time since the last sample.

If a cgroup's quota applies, cpu_idle is the unused share of the quota, and cpu_steal is the share of time during which
the group was throttled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lbdns_agent.cgroup.limiting_cgroup import QuotaTimes
from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor

_IDLE, _STEAL, _FIELDS = 3, 7, 8  # guest time, which follows, is part of user time


@dataclass(frozen=True)
class HostCpuTimes:
    """CPU times since boot in any unit, summed across all processors.

    ``steal`` is None if the system doesn't count steal time.
    """

    idle: float
    steal: float | None
    total: float


def parse(text: bytes) -> HostCpuTimes:
    """Return the CPU times in the first line of /proc/stat (proc_stat(5)). Idle time doesn't include I/O wait.

    Raises ValueError.
    """
    fields = text.partition(b"\n")[0].split()
    if len(fields) < 5 or fields[0] != b"cpu":
        raise ValueError("the first line must contain 'cpu' and the CPU times summed over all processors")
    times = [int(field) for field in fields[1 : _FIELDS + 1]]
    return HostCpuTimes(times[_IDLE], times[_STEAL] if len(times) > _STEAL else None, sum(times))


def read(host: MeasuredHost) -> HostCpuTimes | QuotaTimes:
    """Return the limiting cgroup's CPU times, or the host's CPU times if there is no quota.

    Raises OSError or ValueError.
    """
    of_group = host.group.times() if host.group is not None else None
    return of_group or parse(host.proc.read("stat"))


def read_psutil(psutil: Any) -> HostCpuTimes:
    times = psutil.cpu_times()._asdict()
    total = sum(value for name, value in times.items() if name not in ("guest", "guest_nice"))
    return HostCpuTimes(times["idle"], times.get("steal"), total)


def values(before: HostCpuTimes | QuotaTimes | None, now: HostCpuTimes | QuotaTimes, seconds: float) -> MetricValues:
    """Return cpu_idle and cpu_steal for the time since ``before``, or no metrics if the quota has since changed."""
    if isinstance(now, QuotaTimes):
        return _of_quota(before, now, seconds) if isinstance(before, QuotaTimes) else {}
    return _of_host(before, now) if isinstance(before, HostCpuTimes) else {}


def _of_host(before: HostCpuTimes, now: HostCpuTimes) -> MetricValues:
    total = now.total - before.total
    if total <= 0:
        return {}
    found: dict[str, float | str] = {"cpu_idle": _percent((now.idle - before.idle) / total)}
    if now.steal is None or before.steal is None:
        found["cpu_steal"] = "this system does not count steal time"
    else:
        found["cpu_steal"] = _percent((now.steal - before.steal) / total)
    return found


def _of_quota(before: QuotaTimes, now: QuotaTimes, seconds: float) -> MetricValues:
    if seconds <= 0 or (before.directory, before.quota) != (now.directory, now.quota):
        return {}
    return {
        "cpu_idle": _percent(1 - (now.used - before.used) / (now.quota * seconds)),
        "cpu_steal": _percent((now.throttled - before.throttled) / seconds),
    }


def _percent(share: float) -> float:
    """Return ``share`` as a percentage, clamped to 0-100, because idle time can decrease and CPU use can exceed a
    quota."""
    return 100.0 * min(1.0, max(0.0, share))


SENSOR: Final = Sensor("/proc/stat", read, values, read_psutil=read_psutil)
