"""run_queue: runnable tasks of the host, or of the limiting cgroup; the sampler itself is not counted."""

from __future__ import annotations

from typing import Final

from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values

SAMPLER: Final = 1  # this agent runs while it reads


def parse(text: bytes) -> int:
    """procs_running of a /proc/stat (proc_stat(5)). Raises ValueError."""
    return _number_after(text, b"\nprocs_running ")


def parse_loadavg(text: bytes) -> int:
    """The same number from the fourth field of a /proc/loadavg, ``RUNNING/TASKS``. Raises ValueError."""
    fields = text.split()
    if len(fields) < 4:
        raise ValueError("no /proc/loadavg: it has no fourth field")
    return int(fields[3].partition(b"/")[0])


def _number_after(text: bytes, key: bytes) -> int:
    words = text.rpartition(key)[2].split(None, 1) if key in text else []
    if not words:
        raise ValueError(f"there is no {key.strip().decode()}")
    return int(words[0])


def read(host: Host) -> int:
    """Runnable tasks without the agent's. Raises OSError, ValueError."""
    if host.group is not None and host.group.counts:
        return host.group.runnable()
    return max(0, parse(host.proc.read("stat")) - SAMPLER)


def values(before: int | None, now: int, seconds: float) -> Values:
    return {"run_queue": float(now)}


def glance(host: Host) -> Values:
    """As read, from a file that costs a tenth; nothing for a cgroup, whose threads must be read one by one."""
    if host.group is not None and host.group.counts:
        return {}
    return {"run_queue": float(max(0, parse_loadavg(host.proc.read("loadavg")) - SAMPLER))}


SENSOR: Final = Sensor("/proc/stat", read, values, momentary=True, glance=glance)
