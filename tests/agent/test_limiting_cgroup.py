"""Tests of a limited control group's metrics, which are read from fake cgroup files (v1 and v2)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from lbdns_agent.cgroup.cgroup_controllers import CpuController, CpuControllerV1, MemoryController, MemoryControllerV1
from lbdns_agent.cgroup.cgroup_threads import CgroupThreads
from lbdns_agent.cgroup.limiting_cgroup import LimitingCgroup
from lbdns_agent.kernel_files import ProcFiles
from lbdns_agent.metrics import blocked_tasks, cpu_count, cpu_time, mem_available, run_queue, scan_rate
from lbdns_agent.sensor import MeasuredHost
from tests.agent.cgroups import v1_cpu_group, v1_memory_group, v2_group, write
from tests.agent.fixtures import PROC

GIB = 2**30
HALF = "50000 100000\n"


def group_v2(*folders: Path, always: bool = False) -> LimitingCgroup:
    return LimitingCgroup([CpuController(f) for f in folders], [MemoryController(f) for f in folders], 64, always)


def host_with(group: LimitingCgroup) -> MeasuredHost:
    return MeasuredHost(ProcFiles(PROC / "6.1"), group)


def test_v2_times(tmp_path: Path) -> None:
    v2_group(tmp_path, cpu__max=HALF, cpu__stat="usage_usec 2500000\nnr_periods 9\nthrottled_usec 300000\n")
    times = group_v2(tmp_path).times()
    assert times is not None
    assert (times.quota, times.used, times.throttled) == (0.5, 2.5, 0.3)


def test_cpu_metrics_are_of_the_quota(tmp_path: Path) -> None:
    group = group_v2(tmp_path)
    host = host_with(group)
    v2_group(tmp_path, cpu__max=HALF)
    before = cpu_time.read(host)
    v2_group(tmp_path, cpu__max=HALF, cpu__stat="usage_usec 100000\nthrottled_usec 250000\n")
    assert cpu_time.values(before, cpu_time.read(host), 1.0) == pytest.approx({"cpu_idle": 80.0, "cpu_steal": 25.0})
    assert cpu_count.SENSOR.values(None, cpu_count.read(host), 0.0) == {"cpu_count": 0.5}


def test_without_a_quota_they_are_the_hosts(tmp_path: Path) -> None:
    v2_group(tmp_path)
    host = host_with(group_v2(tmp_path))
    assert cpu_count.read(host) == 16
    assert isinstance(cpu_time.read(host), cpu_time.HostCpuTimes)
    assert run_queue.read(host) == 16
    assert blocked_tasks.read(host) == 4
    assert scan_rate.read(host)[0] == "host"


DROPPABLE = f"inactive_file {GIB // 4}\nactive_file {GIB // 8}\nslab_reclaimable {GIB // 8}\n"


@pytest.mark.parametrize(
    ("limit", "current", "stat", "host_available", "percent"),
    [
        (f"{GIB}\n", GIB // 2, "inactive_file 0\n", 8 * GIB, 50.0),
        # page cache and slab that can be dropped are available
        (f"{GIB}\n", GIB, DROPPABLE, 8 * GIB, 50.0),
        (f"{GIB}\n", 2 * GIB, "inactive_file 0\n", 8 * GIB, 0.0),
        (f"{GIB}\n", GIB // 4, "inactive_file 0\n", GIB // 8, 12.5),  # the host has less than the limit allows
        ("max\n", GIB // 4, "inactive_file 0\n", GIB, None),
        (f"{64 * GIB}\n", GIB // 4, "inactive_file 0\n", GIB, None),  # a limit above what the host has
    ],
)  # fmt: skip
def test_v2_memory(
    tmp_path: Path, limit: str, current: int, stat: str, host_available: int, percent: float | None
) -> None:
    v2_group(tmp_path, memory__max=limit, memory__current=f"{current}\n", memory__stat=stat)
    assert group_v2(tmp_path).memory_available(host_available, 16 * GIB) == percent


def test_memory_of_an_ancestor_counts(tmp_path: Path) -> None:
    v2_group(tmp_path, memory__max=f"{GIB}\n", memory__current=f"{GIB * 3 // 4}\n")
    v2_group(tmp_path / "a", memory__max=f"{2 * GIB}\n", memory__current=f"{GIB // 4}\n")
    assert group_v2(tmp_path / "a", tmp_path).memory_available(8 * GIB, 16 * GIB) == 25.0


def test_v1_memory(tmp_path: Path) -> None:
    v1_memory_group(tmp_path, str(GIB), GIB, GIB // 2)
    v1_cpu_group(tmp_path)
    group = LimitingCgroup([CpuControllerV1(tmp_path, None)], [MemoryControllerV1(tmp_path)], 2, always=True)
    assert group.memory_available(8 * GIB, 16 * GIB) == 50.0
    assert group.scanned() is None
    assert scan_rate.read(host_with(group))[0] == "host", "version 1 doesn't tell: the host's instead"
    v1_memory_group(tmp_path)
    assert group.memory_available(8 * GIB, 16 * GIB) is None
    assert mem_available.read(host_with(group)) == pytest.approx(100 * 28900760 / 32839500)


@pytest.mark.parametrize(
    ("stat", "scanned"),
    [
        ("pgscan 500\npgsteal 400\n", 500),  # before Linux 6.0
        ("pgscan 500\npgscan_kswapd 300\npgscan_direct 150\npgscan_khugepaged 10\npgscan_proactive 40\n", 460),
        ("anon 5\n", None),
    ],
)
def test_v2_pages_scanned(tmp_path: Path, stat: str, scanned: int | None) -> None:
    v2_group(tmp_path, cpu__max=HALF, memory__stat=stat)
    group = group_v2(tmp_path)
    assert group.scanned() == scanned
    assert scan_rate.read(host_with(group)) == (("cgroup", scanned) if scanned is not None else ("host", 8461320))


def test_a_hierarchy_without_the_memory_controller(tmp_path: Path) -> None:
    write(tmp_path, {"cpu.max": HALF, "cpu.stat": "usage_usec 1\n", "cgroup.threads": ""})
    group = group_v2(tmp_path)
    assert group.memory_available(GIB, 2 * GIB) is None
    assert group.scanned() is None
    assert LimitingCgroup([CpuController(tmp_path)], [], 64).scanned() is None


def task(proc: Path, thread: int, state: str, used: int) -> None:
    tail = f"1 1 1 0 -1 0 0 0 0 0 {used} 0 0 0 20 0 1 0 0 0 0"
    write(proc / str(thread) / "task" / str(thread), {"stat": f"{thread} (w) {state} {tail}\n"})


def test_runnable_threads_of_the_group_and_those_below(tmp_path: Path) -> None:
    proc, top = tmp_path / "proc", tmp_path / "group"
    for thread, state in ((101, "R"), (102, "S"), (103, "R"), (104, "D"), (105, "R")):
        task(proc, thread, state, 0)
    v2_group(top, cpu__max=HALF, cgroup__threads="101\n102\n")
    v2_group(top / "below", cgroup__threads="103\n104\n999\n")  # 999 has just ended
    group = LimitingCgroup([CpuController(top)], [], 64, proc=str(proc))
    assert group.runnable() == 2
    assert run_queue.read(host_with(group)) == 2
    assert run_queue.quick_read(host_with(group)) == {}, "too dear to be watched"
    assert blocked_tasks.read(host_with(group)) == 1
    task(proc, 102, "R", 0)
    assert group.runnable() == 2, "once a round"
    group.start_round()
    assert group.runnable() == 3


def test_the_agents_own_threads_are_not_counted(tmp_path: Path) -> None:
    own = threading.get_native_id()
    task(tmp_path / "proc", own, "R", 0)
    v2_group(tmp_path / "group", cpu__max=HALF, cgroup__threads=f"{own}\n")
    assert LimitingCgroup([CpuController(tmp_path / "group")], [], 64, proc=str(tmp_path / "proc")).runnable() == 0


def test_time_used_is_summed_over_threads_where_no_controller_counts(tmp_path: Path) -> None:
    proc, folder = tmp_path / "proc", tmp_path / "cpu"
    tick = 1 / os.sysconf("SC_CLK_TCK")
    v1_cpu_group(folder, quota_us=50_000, tasks="101\n102\n")
    task(proc, 101, "R", 1000)
    task(proc, 102, "S", 500)
    group = LimitingCgroup([CpuControllerV1(folder, None)], [], 64, proc=str(proc))

    def used() -> float:
        group.start_round()
        times = group.times()
        assert times is not None
        return times.used

    assert used() == 0.0
    task(proc, 101, "R", 1030)
    assert used() == pytest.approx(30 * tick)
    v1_cpu_group(folder, quota_us=50_000, tasks="101\n103\n")  # 102 has ended, 103 is new
    task(proc, 103, "R", 700)
    task(proc, 101, "R", 1040)
    assert used() == pytest.approx(40 * tick)
    task(proc, 103, "R", 705)
    assert used() == pytest.approx(45 * tick)


def test_a_group_that_was_removed_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        CgroupThreads(tmp_path / "gone", "tasks").read()


def test_groups_made_and_removed_below_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns_agent.cgroup.cgroup_threads.SEARCH_INTERVAL", 0.0)
    proc, top = tmp_path / "proc", tmp_path / "group"
    task(proc, 101, "R", 0)
    task(proc, 102, "R", 0)
    v2_group(top, cgroup__threads="101\n")
    tasks = CgroupThreads(top, "cgroup.threads", str(proc))
    counts = []
    for step in range(3):
        if step == 1:
            v2_group(top / "new", cgroup__threads="102\n")
        if step == 2:
            remove(top / "new")
        tasks.read()
        counts.append(tasks.in_state("R"))
    assert counts == [1, 2, 1]


def remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
