"""Tests of what a host needs, of control groups, of time limits, and of the command that boots a machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lbdns_machines.control_groups import own_groups
from lbdns_machines.host_check import HostError, check_host
from lbdns_machines.machine import nspawn_command
from lbdns_machines.time_limit import TimeLimitReached, time_limit


def test_machines_need_root() -> None:
    with pytest.raises(HostError, match="booting machines needs root"):
        check_host(user=1000, find=lambda name: f"/bin/{name}")


def test_machines_need_programs() -> None:
    check_host(user=0, find=lambda name: f"/bin/{name}")
    with pytest.raises(HostError, match="ip not found: run 'make deps-packaging' as root"):
        check_host(user=0, find=lambda name: None if name == "ip" else f"/bin/{name}")


@pytest.mark.parametrize(
    ("listing", "unified", "expected"),
    [
        ("0::/user.slice/session-1.scope\n", False, ["user.slice/session-1.scope"]),
        ("9:name=systemd:/\n4:memory:/box\n0::/\n", True, ["systemd", "unified"]),
        ("9:name=systemd:/a\n0::/b\n", True, ["systemd/a", "unified/b"]),
    ],
)
def test_systemd_uses_its_own_hierarchy_and_the_unified_one(
    tmp_path: Path, listing: str, unified: bool, expected: list[str]
) -> None:
    if unified:
        (tmp_path / "unified").mkdir()
    assert own_groups(listing, tmp_path) == [tmp_path / path for path in expected]


def test_a_machine_boots_in_its_groups_and_namespace() -> None:
    groups = [Path("/sys/fs/cgroup/a b/cgroup.procs"), Path("/sys/fs/cgroup/c/cgroup.procs")]
    command = nspawn_command("ns", Path("/roots/ns"), "/run/netns/own", groups)
    assert command[:2] == ["sh", "-euc"]
    assert command[2] == (
        "echo $$ > '/sys/fs/cgroup/a b/cgroup.procs'; echo $$ > /sys/fs/cgroup/c/cgroup.procs; exec \"$@\""
    )
    assert {"--net=/run/netns/own", "--boot", "--machine=ns", "--directory=/roots/ns"} <= set(command)


def test_a_limit_interrupts_what_takes_longer() -> None:
    with pytest.raises(TimeLimitReached, match="waiting takes longer than 0 s"), time_limit(0.05, "waiting"):
        time.sleep(30)


def test_a_limit_ends_with_its_body() -> None:
    with time_limit(0.05, "waiting"):
        pass
    time.sleep(0.1)
