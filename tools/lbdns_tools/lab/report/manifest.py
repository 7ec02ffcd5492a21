"""What a report was made with: versions, machine, farms, settings, times. Figures mean little without."""

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
from lbdns_tools import installed
from lbdns_tools.lab.farm import Farm

#: Program -> how it tells its version
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "apache2": ("-v",), "haproxy": ("-v",), "nginx": ("-v",), "pound": ("-V",), "unbound": ("-V",),
}  # fmt: skip
NOT_THERE: Final = "not found"
UNKNOWN: Final = "unknown"  # a fact that this machine doesn't tell
_PATIENCE: Final = 10.0  # s, for a program to tell its version
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+[^\s,;)]*")


def begin(study: str, settings: Mapping[str, object], farms: Mapping[str, Farm]) -> dict[str, Any]:
    """What is known before anything is measured. The load average is that of whatever else the machine does."""
    return {
        "study": study,
        "began": _now(),
        "settings": dict(settings),
        "machine": machine(),
        "versions": versions(farms.values()),
        "farms": {name: asdict(farm) for name, farm in farms.items()},
    }


def end(document: Mapping[str, Any], failed: Sequence[str] = (), interrupted: bool = False) -> dict[str, Any]:
    """The same with how it ended: what of it ``failed``, and whether somebody ended it early."""
    ended = _now()
    took = datetime.fromisoformat(ended) - datetime.fromisoformat(document["began"])
    times = {"ended": ended, "took_s": round(took.total_seconds(), 1), "interrupted": interrupted}
    return {"study": document["study"], "began": document["began"], **times, "failed": list(failed)} | {
        name: value for name, value in document.items() if name not in ("study", "began")
    }


def versions(farms: Iterable[Farm]) -> dict[str, str]:
    """Of this product, and of the programs that these farms use, those alone."""
    used = ["apache2"]
    for farm in farms:
        used += [*farm.proxies, *(["unbound"] if farm.resolvers else [])]
    found = {name: version_of(name, PROGRAMS[name]) for name in dict.fromkeys(used)}
    return {"lbdns": __version__, "Python": platform.python_version(), **found}


def version_of(program: str, arguments: Sequence[str]) -> str:
    """As the program tells it."""
    if not installed.is_there(program):
        return NOT_THERE
    try:
        command = [installed.path_of(program), *arguments]
        told = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return UNKNOWN
    found = _VERSION.search(told.stdout + told.stderr)  # nginx tells it on standard error
    return found.group() if found else UNKNOWN


def machine(root: Path = Path("/")) -> dict[str, Any]:
    """The machine that all of a lab runs on; ``root`` is where its /proc and /sys are."""
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
    """The first ``name : value`` of /proc/cpuinfo."""
    found = re.search(rf"^{re.escape(name)}\s*: *(.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
