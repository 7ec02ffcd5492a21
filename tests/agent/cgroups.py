"""Control groups for tests: real ones on this machine, and fake ones (v1 and v2) in a folder."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from lbdns_agent.cgroup.cgroup_mounts import UNIFIED, CgroupMount, read_cgroup_mounts

MAX_V1 = "9223372036854771712"


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a fake control group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def v2_group(folder: Path, **changes: str) -> None:
    """Create a complete fake v2 cgroup. ``changes`` replace the contents of files (``__`` for ``.`` in their names)."""
    files = {
        "cpu.max": "max 100000\n",
        "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
        "memory.max": "max\n",
        "memory.current": "0\n",
        "memory.stat": "anon 0\nfile 0\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\npgscan 0\n",
        "cgroup.threads": "",
        "cgroup.procs": "",
    }
    write(folder, files | {name.replace("__", "."): text for name, text in changes.items()})


def v1_cpu_group(folder: Path, quota_us: int = -1, throttled_ns: int = 0, tasks: str = "") -> None:
    """Create a fake v1 cgroup for the cpu controller."""
    write(
        folder,
        {
            "cpu.cfs_quota_us": f"{quota_us}\n",
            "cpu.cfs_period_us": "100000\n",
            "cpu.stat": f"nr_periods 5\nnr_throttled 1\nthrottled_time {throttled_ns}\n",
            "tasks": tasks,
        },
    )


def v1_memory_group(folder: Path, limit: str = MAX_V1, usage: int = 0, file: int = 0) -> None:
    """Create a fake v1 cgroup for the memory controller. Half of the cgroup's page cache is active."""
    write(
        folder,
        {
            "memory.limit_in_bytes": f"{limit}\n",
            "memory.usage_in_bytes": f"{usage}\n",
            "memory.stat": f"cache {file}\ntotal_inactive_file {file // 2}\ntotal_active_file {file // 2}\n",
        },
    )


def fake_proc(folder: Path, mounts: str, membership: str) -> str:
    """Create a fake /proc in which the process ``self`` belongs to these cgroups."""
    write(folder / "self", {"mountinfo": mounts, "cgroup": membership})
    return str(folder)


def cpu_mount() -> tuple[CgroupMount, bool]:
    """Return a cgroup mount that supports CPU quotas (preferably v1), and whether the mount is v2."""
    mounts = read_cgroup_mounts()
    for mount in mounts:
        if "cpu" in mount.controllers:
            return mount, False
    for mount in mounts:
        if UNIFIED in mount.controllers and "cpu" in (mount.point / "cgroup.controllers").read_text().split():
            return mount, True
    raise AssertionError("no cgroup hierarchy of this machine has the cpu controller")


@contextlib.contextmanager
def limited_group(quota: float, with_accounting: bool = True) -> Iterator[str]:
    """Create a control group with a CPU quota (in cores), yield its path as in /proc/PID/cgroup, then remove it."""
    mount, unified = cpu_mount()
    path = f"/lbdns-test-{uuid.uuid4().hex[:12]}"
    folders = [mount.point / path[1:]]
    if unified:
        (mount.point / "cgroup.subtree_control").write_text("+cpu")
    elif with_accounting and "cpuacct" not in mount.controllers:
        folders += [other.point / path[1:] for other in read_cgroup_mounts() if "cpuacct" in other.controllers]
    for folder in folders:
        folder.mkdir()
    try:
        if unified:
            (folders[0] / "cpu.max").write_text(f"{int(quota * 100_000)} 100000")
        else:
            (folders[0] / "cpu.cfs_period_us").write_text("100000")
            (folders[0] / "cpu.cfs_quota_us").write_text(str(int(quota * 100_000)))
        yield path
    finally:
        for folder in folders:
            _remove(folder)


def move_in(path: str, pid: int) -> None:
    """Move a process into a control group, in every hierarchy that contains the group."""
    for mount in read_cgroup_mounts():
        procs = mount.point / path.strip("/") / "cgroup.procs"
        if procs.exists():
            procs.write_text(str(pid))


def _remove(folder: Path) -> None:
    end = time.monotonic() + 10
    while True:
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (folder.parent / "cgroup.procs").write_text(pid)
        try:
            os.rmdir(folder)
        except OSError:
            assert time.monotonic() < end, f"{folder} can't be removed"
            time.sleep(0.01)
        else:
            return
