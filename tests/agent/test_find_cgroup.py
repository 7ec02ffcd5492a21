"""Tests of finding the control group to measure, with fake cgroup files (v1 and v2)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lbdns_agent.cgroup.find_cgroup import find_cgroup
from lbdns_agent.cgroup.limiting_cgroup import LimitingCgroup
from lbdns_shared.errors import ConfigError
from tests.agent.cgroups import fake_proc, v1_cpu_group, v1_memory_group, v2_group, write

HALF = "50000 100000\n"
TENTH = "10000 100000\n"


def v2_host(tmp_path: Path, membership: str) -> str:
    """Create a host with cgroup v2 and the groups /, /slice and /slice/service."""
    top = tmp_path / "cgroup"
    write(top, {"cgroup.procs": "", "cgroup.threads": ""})  # the root has no limits
    v2_group(top / "slice")
    v2_group(top / "slice" / "service")
    return fake_proc(tmp_path / "proc", f"29 25 0:26 / {top} rw - cgroup2 cgroup2 rw\n", f"0::{membership}\n")


def v1_host(tmp_path: Path, membership: str, together: bool = True) -> str:
    """Create a host with cgroup v1 and the groups /web and /web/inner; cpu and cpuacct may be mounted together."""
    cpu, memory = tmp_path / "cpu", tmp_path / "memory"
    accounting = cpu if together else tmp_path / "cpuacct"
    for path in ("", "web", "web/inner"):
        v1_cpu_group(cpu / path)
        write(accounting / path, {"cpuacct.usage": "7000000000\n"})
        v1_memory_group(memory / path)
    mounts = f"33 30 0:28 / {cpu} rw - cgroup cgroup rw,cpu{',cpuacct' if together else ''}\n"
    if not together:
        mounts += f"35 30 0:30 / {accounting} rw - cgroup cgroup rw,cpuacct\n"
    mounts += f"34 30 0:29 / {memory} rw - cgroup cgroup rw,memory\n"
    return fake_proc(tmp_path / "proc", mounts, membership)


def found(choice: str, proc: str) -> LimitingCgroup:
    group = find_cgroup(choice, proc)
    assert group is not None
    return group


def test_off(tmp_path: Path) -> None:
    assert find_cgroup("off", v2_host(tmp_path, "/slice/service")) is None


def test_the_root_group_limits_nothing(tmp_path: Path) -> None:
    assert find_cgroup("auto", v2_host(tmp_path, "/")) is None


def test_a_host_without_cgroups(tmp_path: Path) -> None:
    assert find_cgroup("auto", str(tmp_path / "nowhere")) is None
    assert find_cgroup("auto", fake_proc(tmp_path, "", "")) is None
    with pytest.raises(ConfigError, match="cannot read this host's cgroups"):
        find_cgroup("/web", str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("service", "slice_", "quota"),
    [
        ("max 100000\n", "max 100000\n", None),
        (HALF, "max 100000\n", 0.5),
        ("max 100000\n", HALF, 0.5),
        (HALF, TENTH, 0.1),
        (TENTH, HALF, 0.1),
        (f"{100_000 * (os.cpu_count() or 1)} 100000\n", "max 100000\n", None),  # all that the host has: no limit
    ],
)
def test_v2_the_tightest_quota_of_the_group_and_its_ancestors(
    tmp_path: Path, service: str, slice_: str, quota: float | None
) -> None:
    proc = v2_host(tmp_path, "/slice/service")
    v2_group(tmp_path / "cgroup" / "slice", cpu__max=slice_)
    v2_group(tmp_path / "cgroup" / "slice" / "service", cpu__max=service)
    group = found("auto", proc)
    assert group.quota() == quota
    assert group.counts == (quota is not None)


def test_a_quota_set_later_counts_from_the_next_round(tmp_path: Path) -> None:
    group = found("auto", v2_host(tmp_path, "/slice/service"))
    assert group.quota() is None
    (tmp_path / "cgroup" / "slice" / "cpu.max").write_text(HALF)
    assert group.quota() is None
    group.start_round()
    assert group.quota() == 0.5


@pytest.mark.parametrize("spelled", ["/slice", "slice", "slice/", "{point}/slice", "{point}/slice/"])
def test_v2_a_named_group_counts_even_without_a_quota(tmp_path: Path, spelled: str) -> None:
    proc = v2_host(tmp_path, "/")
    group = found(spelled.format(point=tmp_path / "cgroup"), proc)
    assert group.quota() is None
    assert group.times() is None
    assert group.counts


def test_a_named_group_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--cgroup /slyce: there is no such group under .*cgroup") as raised:
        find_cgroup("/slyce", v2_host(tmp_path, "/"))
    assert raised.value.exit_status == 2


def test_v2_in_a_container_with_a_namespace_of_its_own(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    v2_group(top, cpu__max=HALF)  # what looks like the root is the container's group
    proc = fake_proc(tmp_path / "proc", f"29 25 0:26 / {top} rw - cgroup2 cgroup2 rw\n", "0::/\n")
    assert found("auto", proc).quota() == 0.5


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("choice", ["auto", "/web/inner"])
def test_v1(tmp_path: Path, together: bool, choice: str) -> None:
    controllers = ("cpu,cpuacct",) if together else ("cpu", "cpuacct")
    membership = "".join(f"3:{name}:/web/inner\n" for name in (*controllers, "memory"))
    proc = v1_host(tmp_path, membership, together)
    v1_cpu_group(tmp_path / "cpu" / "web", quota_us=20_000, throttled_ns=1_500_000_000)
    group = found(choice, proc)
    times = group.times()
    assert times is not None
    assert (times.directory, times.quota, times.used, times.throttled) == (tmp_path / "cpu" / "web", 0.2, 7.0, 1.5)


def test_v1_a_cpuacct_group_of_another_name_is_not_the_same_group(tmp_path: Path) -> None:
    proc = v1_host(tmp_path, "3:cpu:/web\n4:cpuacct:/\n5:memory:/\n", together=False)
    v1_cpu_group(tmp_path / "cpu" / "web", quota_us=20_000)
    group = found("auto", proc)
    times = group.times()
    assert times is not None
    assert times.used == 0.0, "counted by the group's threads, of which there is none"


def test_v1_a_group_of_the_cpu_controller_alone_can_be_named(tmp_path: Path) -> None:
    proc = v1_host(tmp_path, "3:cpu:/\n4:cpuacct:/\n", together=False)
    v1_cpu_group(tmp_path / "cpu" / "lonely", quota_us=150_000)
    assert found(str(tmp_path / "cpu" / "lonely"), proc).quota() == (1.5 if (os.cpu_count() or 1) > 1 else None)
    assert found("lonely", proc).memory_available(100, 1000) is None


def test_v1_without_bandwidth_control(tmp_path: Path) -> None:
    proc = v1_host(tmp_path, "3:cpu,cpuacct:/web\n")
    for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"):
        (tmp_path / "cpu" / "web" / name).unlink()
    assert found("auto", proc).quota() is None
