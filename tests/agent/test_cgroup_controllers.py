from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.cgroup.cgroup_controllers import parse_byte_limit, parse_cfs_quota, parse_cpu_max, parse_flat_keyed
from lbdns_agent.cgroup.cgroup_mounts import (
    UNIFIED,
    CgroupMount,
    cgroup_and_ancestors,
    cgroup_directory,
    parse_cgroup_membership,
    parse_cgroup_mounts,
)


def test_keyed() -> None:
    text = b"usage_usec 2500000\nnr_periods 10\nnr_throttled 3\nthrottled_usec 120000\n"
    assert parse_flat_keyed(text) == {
        b"usage_usec": 2_500_000,
        b"nr_periods": 10,
        b"nr_throttled": 3,
        b"throttled_usec": 120_000,
    }
    with pytest.raises(ValueError, match="invalid literal"):
        parse_flat_keyed(b"usage_usec many\n")


@pytest.mark.parametrize(
    ("text", "cores"),
    [(b"max 100000\n", None), (b"50000 100000\n", 0.5), (b"400000 100000\n", 4.0), (b"1000 500000\n", 0.002)],
)
def test_cpu_max(text: bytes, cores: float | None) -> None:
    assert parse_cpu_max(text) == cores


@pytest.mark.parametrize("text", [b"", b"max", b"50000", b"a 100000", b"50000 0"])
def test_no_cpu_max(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"cpu\.max|invalid literal"):
        parse_cpu_max(text)


@pytest.mark.parametrize(
    ("quota", "period", "cores"), [(b"-1\n", b"100000\n", None), (b"20000\n", b"100000\n", 0.2), (b"9\n", b"3\n", 3.0)]
)
def test_cfs_quota(quota: bytes, period: bytes, cores: float | None) -> None:
    assert parse_cfs_quota(quota, period) == cores


@pytest.mark.parametrize(
    ("text", "limit"), [(b"max\n", None), (b"1073741824\n", 2**30), (b"9223372036854771712\n", None), (b"0\n", 0)]
)
def test_byte_limit(text: bytes, limit: int | None) -> None:
    assert parse_byte_limit(text) == limit


@given(st.binary(), st.binary())
def test_anything_else_is_a_value_error(one: bytes, two: bytes) -> None:
    for parse in (parse_flat_keyed, parse_cpu_max, parse_byte_limit):
        with contextlib.suppress(ValueError):
            parse(one)
    with contextlib.suppress(ValueError):
        parse_cfs_quota(one, two)


# Made up in the form of proc_pid_mountinfo(5): a systemd host with version 2, one with both, a container with version 1
V2 = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
29 25 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
"""
HYBRID = r"""30 22 0:25 / /sys/fs/cgroup ro,nosuid shared:8 - tmpfs tmpfs ro,mode=755
31 30 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
32 30 0:27 / /sys/fs/cgroup/systemd rw,nosuid shared:10 - cgroup cgroup rw,xattr,name=systemd
33 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 - cgroup cgroup rw,cpu,cpuacct
34 30 0:29 / /sys/fs/cgroup/my\040memory rw,nosuid - cgroup cgroup rw,memory
"""
CONTAINER = "500 490 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:11 - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.mark.parametrize(
    ("text", "mounts"),
    [
        (V2, [("/sys/fs/cgroup", "/", {UNIFIED})]),
        (
            HYBRID,
            [
                ("/sys/fs/cgroup/unified", "/", {UNIFIED}),
                ("/sys/fs/cgroup/systemd", "/", {"rw", "xattr", "name=systemd"}),
                ("/sys/fs/cgroup/cpu,cpuacct", "/", {"rw", "cpu", "cpuacct"}),
                ("/sys/fs/cgroup/my memory", "/", {"rw", "memory"}),
            ],
        ),
        (CONTAINER, [("/sys/fs/cgroup/cpu,cpuacct", "/docker/abc", {"rw", "cpu", "cpuacct"})]),
        ("", []),
        ("nonsense\n - \n1 2 - cgroup x y\n", []),
    ],
)
def test_parse_mounts(text: str, mounts: list[tuple[str, str, set[str]]]) -> None:
    assert parse_cgroup_mounts(text) == [CgroupMount(Path(point), root, frozenset(c)) for point, root, c in mounts]


def test_parse_membership() -> None:
    text = "12:cpu,cpuacct:/web\n3:name=systemd:/system.slice/a:b.service\n0::/system.slice\nnonsense\n"
    assert parse_cgroup_membership(text) == {
        "cpu": "/web", "cpuacct": "/web", "name=systemd": "/system.slice/a:b.service", UNIFIED: "/system.slice",
    }  # fmt: skip


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert isinstance(parse_cgroup_mounts(text), list)
    assert isinstance(parse_cgroup_membership(text), dict)


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("/", "/a/b", "a/b"),
        ("/", "/", ""),
        ("/", "/missing", None),
        ("/docker/abc", "/docker/abc", ""),  # a container that knows its path on the host
        ("/docker/abc", "/docker/abc/a", "a"),
        ("/docker/abc", "/", ""),  # one with a namespace of its own
        ("/docker/abc", "/docker/abcdef", ""),
        ("/", "/../outside", ""),  # a group above the namespace
    ],
)
def test_where_a_group_is(tmp_path: Path, root: str, path: str, expected: str | None) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    mounts = [
        CgroupMount(Path("/elsewhere"), "/", frozenset({"memory"})),
        CgroupMount(tmp_path, root, frozenset({"cpu"})),
    ]
    found = cgroup_directory(mounts, "cpu", path)
    assert found == (None if expected is None else (tmp_path / expected, tmp_path))


def test_upwards(tmp_path: Path) -> None:
    assert list(cgroup_and_ancestors(tmp_path / "a" / "b", tmp_path)) == [
        tmp_path / "a" / "b",
        tmp_path / "a",
        tmp_path,
    ]
    assert list(cgroup_and_ancestors(tmp_path, tmp_path)) == [tmp_path]
