"""Judges whether the agent's metrics agree with the files of control groups of version 2; pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lbdns_agent.cgroup.cgroup_controllers import parse_flat_keyed
from lbdns_machines.guest_measurements import ANCESTOR, BURNERS, LIMITS
from lbdns_machines.machine import MachineError

Observation = Mapping[str, Any]
_MEBIBYTE: Final = 2**20
_MEMORY_TOLERANCE: Final = 5.0  # percentage points by which the memory use may leave the range of the two readings
_SATURATED: Final = 40.0  # idle percentage; processes that use their whole quota leave less
_DROPPABLE: Final = (b"inactive_file", b"active_file", b"slab_reclaimable")


def check_system(measured: Mapping[str, Any]) -> str:
    """The virtual machine has version 2 alone."""
    _expect(measured["file_systems"] == ["cgroup2"], f"/sys/fs/cgroup has {measured['file_systems']}, not ['cgroup2']")
    return f"Linux {measured['kernel']}, {measured['cores']} cores"


def check_outside(measured: Mapping[str, Any]) -> str:
    """Outside of every limited group, the metrics are the host's."""
    metrics = _metrics(measured, "outside")
    _expect(metrics["cpu_count"] == measured["cores"], f"cpu_count is {metrics['cpu_count']}, not the host's")
    return f"cpu_count {metrics['cpu_count']}"


def check_limits(measured: Mapping[str, Any], name: str) -> str:
    """The agent in a limited service reports the CPU quota and the memory limit of its group, or of ``ANCESTOR``."""
    limits = LIMITS[name] or LIMITS[ANCESTOR]
    quota, limit = float(limits["CPUQuota"].rstrip("%")) / 100, int(limits["MemoryMax"].rstrip("M")) * _MEBIBYTE
    observation = measured["observations"][name]
    if LIMITS[name]:
        _expect_file(observation, "cpu.max", f"{quota * 100_000:.0f} 100000")
        _expect_file(observation, "memory.max", str(limit))
    else:
        # systemd creates the file only in groups for which it has enabled the controller
        found = observation["after"].get("cpu.max", "max 100000\n").split()[0]
        _expect(found == "max", f"the service has a quota of its own: {found}")
    metrics = _metrics(measured, name)
    _expect(abs(metrics["cpu_count"] - quota) < 1e-9, f"cpu_count is {metrics['cpu_count']}, not {quota}")
    lowest, highest = (
        edge(_available(observation[when], limit) for when in ("before", "after")) for edge in (min, max)
    )
    lowest, highest = lowest - _MEMORY_TOLERANCE, highest + _MEMORY_TOLERANCE
    available = metrics["mem_available"]
    # The agent itself is in the group, and needs memory only while it runs; an ancestor holds more than the group
    lowest = lowest if name == "burner" else 0.0
    _expect(lowest <= available <= highest, f"mem_available is {available}, not from {lowest:.1f} to {highest:.1f}")
    return f"cpu_count {metrics['cpu_count']}, mem_available {available:.1f} %"


def check_burner(measured: Mapping[str, Any]) -> str:
    """Processes that use their whole quota leave little idle time, and are throttled."""
    described = check_limits(measured, "burner")
    metrics, observation = _metrics(measured, "burner"), measured["observations"]["burner"]
    throttled = _growth(observation, "cpu.stat", b"throttled_usec")
    _expect(throttled > 0, "the kernel has not throttled the group")
    _expect(metrics["cpu_steal"] > 0, f"cpu_steal is {metrics['cpu_steal']} although the group was throttled")
    _expect(metrics["cpu_idle"] < _SATURATED, f"cpu_idle is {metrics['cpu_idle']}, not below {_SATURATED}")
    _expect(metrics["run_queue"] == BURNERS, f"run_queue is {metrics['run_queue']}, not {BURNERS}")
    return f"{described}, cpu_idle {metrics['cpu_idle']:.1f} %, cpu_steal {metrics['cpu_steal']:.1f} %"


def check_reader(measured: Mapping[str, Any]) -> str:
    """A process that reads more than its memory limit makes the kernel scan the group's pages."""
    scanned = _growth(measured["observations"]["reader"], "memory.stat", b"pgscan")
    rate = _metrics(measured, "reader")["scan_rate"]
    _expect(scanned > 0, "the kernel has not scanned the group's pages")
    _expect(rate > 0, f"scan_rate is {rate} although the kernel has scanned {scanned} pages")
    return f"scan_rate {rate:.0f} pages/s"


def check_web_server(measured: Mapping[str, Any]) -> str:
    """Apache's CPU time is that of its service's group, which includes the time of Apache's start scripts."""
    observation = measured["observations"]["web server"]
    lowest, highest = (_number(observation[when], "cpu.stat", b"usage_usec") / 1e6 for when in ("before", "after"))
    seconds = _metrics(measured, "web server")["httpd_cpu_seconds"]
    _expect(lowest <= seconds <= highest, f"httpd_cpu_seconds is {seconds}, not from {lowest} to {highest}")
    return f"httpd_cpu_seconds {seconds:.2f}, the group {lowest:.2f} to {highest:.2f}"


CHECKS: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "the system has control groups of version 2 alone": check_system,
    "outside of limited groups": check_outside,
    "inside a limited service": lambda measured: check_limits(measured, "inside"),
    "below a limited slice": lambda measured: check_limits(measured, "below"),
    "a service that uses its whole quota": check_burner,
    "a service that reads more than its memory limit": check_reader,
    "the CPU time of a web server's service": check_web_server,
}


def _expect(is_so: bool, error: str) -> None:
    if not is_so:
        raise MachineError(error)


def _expect_file(observation: Observation, name: str, text: str) -> None:
    found = observation["after"].get(name, "").strip()
    _expect(found == text, f"{name} is {found!r}, not {text!r}: systemd has not applied the limit")


def _metrics(measured: Mapping[str, Any], name: str) -> Mapping[str, float]:
    metrics: Mapping[str, float] = measured["observations"][name]["agent"]["metrics"]
    return metrics


def _number(files: Mapping[str, str], name: str, key: bytes) -> int:
    return parse_flat_keyed(files[name].encode())[key]


def _growth(observation: Observation, name: str, key: bytes) -> int:
    return _number(observation["after"], name, key) - _number(observation["before"], name, key)


def _available(files: Mapping[str, str], limit: int) -> float:
    """Return the percentage of ``limit`` that a group with these files can still use."""
    droppable = sum(_number(files, "memory.stat", key) for key in _DROPPABLE)
    return 100.0 * (limit - int(files["memory.current"]) + droppable) / limit
