"""Builds the manifest.json of a report: program versions, machine details, farms, settings, and times."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lbdns import __version__
from lbdns_tools import installed_programs
from lbdns_tools.lab.farm.lab_farm import LabFarm

#: The arguments with which each program prints its version
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "apache2": ("-v",), "haproxy": ("-v",), "nginx": ("-v",), "pound": ("-V",), "unbound": ("-V",),
}  # fmt: skip
NOT_THERE: Final = "not found"
UNKNOWN: Final = "unknown"  # a fact that this machine does not provide
_PATIENCE: Final = 10.0  # s to wait for a program to print its version
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+[^\s,;)]*")


def begin(study: str, settings: Mapping[str, object], farms: Mapping[str, LabFarm]) -> dict[str, Any]:
    """Return the manifest at the start of a study. The load average in the manifest shows how busy the machine is."""
    return {
        "study": study,
        "began": _now(),
        "ended": None,
        "took_s": None,
        "interrupted": False,
        "failed": [],
        "settings": dict(settings),
        "machine": machine(),
        "versions": versions(farms.values()),
        "farms": {name: asdict(farm) for name, farm in farms.items()},
    }


def end(document: Mapping[str, Any], failed: Sequence[str] = (), interrupted: bool = False) -> dict[str, Any]:
    """Return a copy of the manifest with the end time, the failures, and whether the study was interrupted."""
    ended = _now()
    took = datetime.fromisoformat(ended) - datetime.fromisoformat(document["began"])
    took_s = round(took.total_seconds(), 1)
    return {**document, "ended": ended, "took_s": took_s, "interrupted": interrupted, "failed": list(failed)}


def versions(farms: Iterable[LabFarm]) -> dict[str, str]:
    """Return the versions of lbdns, Python, and all programs that ``farms`` use."""
    used = ["apache2"]
    for farm in farms:
        used += [*farm.proxies, *(["unbound"] if farm.resolvers else [])]
    found = {name: version_of(name, PROGRAMS[name]) for name in dict.fromkeys(used)}
    return {"lbdns": __version__, "Python": platform.python_version(), **found}


def version_of(program: str, arguments: Sequence[str]) -> str:
    """Return the version that a program prints.

    If the program is not installed, return NOT_THERE. If the program prints no version, return UNKNOWN.
    """
    path = installed_programs.find(program)
    if path is None:
        return NOT_THERE
    try:
        printed = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return UNKNOWN
    found = _VERSION.search(printed.stdout + printed.stderr)  # nginx prints its version on standard error
    return found.group() if found else UNKNOWN


def machine(root: Path = Path("/")) -> dict[str, Any]:
    """Return details about this machine. ``root`` is the directory that contains proc and sys."""
    cpu = _read(root / "proc/cpuinfo")
    memory = re.search(r"MemTotal:\s*(\d+) kB", _read(root / "proc/meminfo"))
    return {
        "processor": _field(cpu, "model name") or platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "governor": _read(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or UNKNOWN,
        "virtual": "hypervisor" in (_field(cpu, "flags") or "").split(),
        "memory_bytes": 1024 * int(memory.group(1)) if memory else None,
        "kernel": f"{platform.system()} {platform.release()}",
        "control_groups": "version 2" if (root / "sys/fs/cgroup/cgroup.controllers").exists() else "version 1",
        "load_average_before": [round(load, 2) for load in os.getloadavg()],
    }


def _field(text: str, name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}\s*: *(.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
