"""Runs in a virtual machine: starts services with limits, and prints what the agent and the kernel say about them.

It needs only Python's standard library. ``python3 guest_measurements.py`` measures everything;
``python3 guest_measurements.py observe OPTION...`` makes one observation of the control group in which it runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

GROUPS: Final = Path("/sys/fs/cgroup")
#: The files of a group that an observation contains, if they exist
FILES: Final = ("cpu.max", "cpu.stat", "memory.max", "memory.current", "memory.stat")
ANCESTOR: Final = "lbdnscheck.slice"
#: The limits of the services and of the ancestor, as properties of systemd
LIMITS: Final = {
    "inside": {"CPUQuota": "50%", "MemoryMax": "200M"},
    "below": {},  # has only the limits of its ancestor
    ANCESTOR: {"CPUQuota": "30%", "MemoryMax": "300M"},
    "burner": {"CPUQuota": "40%", "MemoryMax": "150M"},
    "reader": {"MemoryMax": "40M"},
}
BURNERS: Final = 2  # processes that use all the CPU time they get
_BURN: Final = (
    "import os\n"
    "held = bytearray(os.urandom(1)) * 60_000_000\n"
    f"for _ in range({BURNERS - 1}):\n"
    "    if not os.fork(): break\n"
    "while True: pass\n"
)
#: Reads a file that does not fit into the memory limit
_READ: Final = (
    "with open('/root/large', 'wb') as file: file.truncate(120_000_000)\n"
    "while True:\n"
    "    with open('/root/large', 'rb', 0) as file:\n"
    "        while file.read(1_000_000): pass\n"
)
_PATIENCE: Final = 120.0  # seconds for a service to have an effect


def observe(group: Path, options: list[str]) -> dict[str, Any]:
    """Return one sample of the agent, and the files of ``group`` before and after it."""
    before = _files(group)
    command = ["lbdns-agent", "--once", "--json", "--gateway", "off", *options]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"agent": json.loads(result.stdout), "before": before, "after": _files(group)}


def measure() -> dict[str, Any]:
    """Return all observations by name, and a description of the system."""
    Path(f"/run/systemd/system/{ANCESTOR}").write_text("[Slice]\n" + _lines(LIMITS[ANCESTOR]))
    inside = [sys.executable, __file__, "observe", "--server-status", "off"]
    found = {
        "outside": observe(GROUPS, ["--server-status", "off"]),
        "inside": json.loads(_service("inside", inside, wait=True)),
        "below": json.loads(_service("below", inside, f"--slice={ANCESTOR}", wait=True)),
        "web server": observe(GROUPS / "system.slice" / "apache2.service", []),
    }
    for name, program in (("burner", _BURN), ("reader", _READ)):
        _service(name, [sys.executable, "-c", program])
        group = GROUPS / "system.slice" / f"{name}.service"
        _await_effect(group, "throttled_usec" if name == "burner" else "pgscan")
        directory = f"/system.slice/{name}.service"
        found[name] = observe(group, ["--server-status", "off", "--cgroup", directory])
        subprocess.run(["systemctl", "stop", name], check=True)
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    kinds = [kind for _, point, kind, *_ in mounts if point.startswith(str(GROUPS))]
    return {"kernel": os.uname().release, "file_systems": kinds, "cores": os.cpu_count(), "observations": found}


def own_group() -> Path:
    """Return the folder of this process's control group of version 2."""
    (path,) = (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    return GROUPS / path.lstrip("/")


def _service(name: str, command: list[str], *options: str, wait: bool = False) -> str:
    """Run a command as a service with its limits, and return what it prints if ``wait`` is true."""
    properties = [f"--property={line}" for line in _lines(LIMITS[name]).splitlines()]
    waiting = ["--wait", "--pipe"] if wait else []
    start = ["systemd-run", "--quiet", f"--unit={name}", *waiting, *properties, *options, *command]
    return subprocess.run(start, check=True, stdout=subprocess.PIPE, text=True).stdout


def _await_effect(group: Path, counter: str) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        text = "".join(_files(group).values())
        if any(line.split()[0] == counter and int(line.split()[1]) > 0 for line in text.splitlines()[1:]):
            return
        time.sleep(0.2)
    raise SystemExit(f"{group}: {counter} is still 0 after {_PATIENCE:.0f} s")


def _lines(properties: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def _files(group: Path) -> dict[str, str]:
    return {name: (group / name).read_text() for name in FILES if (group / name).exists()}


if __name__ == "__main__":
    json.dump(observe(own_group(), sys.argv[2:]) if sys.argv[1:2] == ["observe"] else measure(), sys.stdout)
