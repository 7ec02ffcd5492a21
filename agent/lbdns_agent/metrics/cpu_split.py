"""cpu_user, cpu_system and cpu_iowait: the percentages of the host's CPU time since the last sample, by use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor

_FIELDS: Final = 8  # guest time, which follows, is part of user time


@dataclass(frozen=True)
class SplitCpuTimes:
    """CPU times since boot in any unit, summed across all processors.

    ``user`` includes niced programs, and ``system`` includes interrupts. ``iowait`` is None if the system doesn't count
    the time that processors wait for I/O.
    """

    user: float
    system: float
    iowait: float | None
    total: float


def parse(text: bytes) -> SplitCpuTimes:
    """Return the CPU times in the first line of /proc/stat (proc_stat(5)). Raises ValueError."""
    fields = text.partition(b"\n")[0].split()
    if len(fields) < _FIELDS or fields[0] != b"cpu":
        raise ValueError("the first line must contain 'cpu' and the CPU times summed over all processors")
    times = [int(field) for field in fields[1 : _FIELDS + 1]]
    user, nice, system, _, iowait, irq, softirq = times[:7]
    return SplitCpuTimes(user + nice, system + irq + softirq, iowait, sum(times))


def read(host: MeasuredHost) -> SplitCpuTimes:
    return parse(host.proc.read("stat"))


def read_psutil(psutil: Any) -> SplitCpuTimes:
    times = psutil.cpu_times()._asdict()
    total = sum(value for name, value in times.items() if name not in ("guest", "guest_nice"))
    system = sum(times.get(name, 0.0) for name in ("system", "irq", "softirq"))
    return SplitCpuTimes(times["user"] + times.get("nice", 0.0), system, times.get("iowait"), total)


def values(before: SplitCpuTimes | None, now: SplitCpuTimes, seconds: float) -> MetricValues:
    total = now.total - before.total if before is not None else 0.0
    if before is None or total <= 0:
        return {}
    found: dict[str, float | str] = {
        "cpu_user": _percent(now.user - before.user, total),
        "cpu_system": _percent(now.system - before.system, total),
        "cpu_iowait": "this system does not count the time that processors wait for I/O",
    }
    if now.iowait is not None and before.iowait is not None:
        found["cpu_iowait"] = _percent(now.iowait - before.iowait, total)
    return found


def _percent(part: float, total: float) -> float:
    """Return a percentage, clamped to 0-100, because the time that processors wait for I/O can decrease."""
    return 100.0 * min(1.0, max(0.0, part / total))


SENSOR: Final = Sensor("/proc/stat", read, values, read_psutil=read_psutil)
