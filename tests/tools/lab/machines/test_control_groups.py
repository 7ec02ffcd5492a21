"""Tests of control groups: version 1 on this machine, and version 2 with ordinary files as a stand-in."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_agent.cgroup.cgroup_mounts import UNIFIED, CgroupMount
from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.machines import control_groups
from lbdns_tools.lab.machines.control_groups import (
    CgroupHierarchies,
    CgroupHierarchy,
    ControlGroup,
    find_hierarchies,
    make_group,
)
from tests.end_to_end.process import eventually
from tests.needs import needs

real = needs(root=True, cpu_groups=True)
_numbers = itertools.count()
SPIN = "import time\nwhile time.process_time() < {}: pass"


def mount(point: Path, *controllers: str) -> CgroupMount:
    return CgroupMount(point, "/", frozenset(controllers))


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-S", "-c", code


class TestFindHierarchies:
    def test_version_1_apart(self) -> None:
        mounts = [mount(Path("/c"), "cpu"), mount(Path("/a"), "cpuacct"), mount(Path("/m"), "memory")]
        found = find_hierarchies(mounts)
        assert found == CgroupHierarchies(*(CgroupHierarchy(Path(at), False) for at in ("/c", "/a", "/m")))
        assert len(found.all()) == 3

    def test_version_1_together(self) -> None:
        found = find_hierarchies([mount(Path("/both"), "cpu", "cpuacct")])
        assert found.all() == [CgroupHierarchy(Path("/both"), False)]
        assert found.memory is None

    def test_version_2(self, tmp_path: Path) -> None:
        (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory\n")
        assert find_hierarchies([mount(tmp_path, UNIFIED)]).all() == [CgroupHierarchy(tmp_path, True)]

    def test_version_1_wins_where_version_2_has_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "cgroup.controllers").write_text("hugetlb memory\n")
        found = find_hierarchies([mount(tmp_path, UNIFIED), mount(Path("/both"), "cpu", "cpuacct")])
        assert found.cpu == CgroupHierarchy(Path("/both"), False)
        assert found.memory == CgroupHierarchy(tmp_path, True)

    @pytest.mark.parametrize(("controllers", "missing"), [((), "cpu "), (("cpu",), "cpuacct "), (("cpuacct",), "cpu ")])
    def test_missing(self, controllers: tuple[str, ...], missing: str) -> None:
        with pytest.raises(LbdnsError, match=f"controller {missing}is not available: mount cgroup2"):
            find_hierarchies([mount(Path("/x"), *controllers)])


@pytest.mark.parametrize(("unified", "file"), [(False, "cpu.shares"), (True, "cpu.weight")])
def test_priority_over_processes_outside_needs_that_of_the_parents(tmp_path: Path, unified: bool, file: str) -> None:
    hierarchy = CgroupHierarchy(tmp_path, unified)
    group = ControlGroup("lbdns-lab/1a2b3c", CgroupHierarchies(hierarchy, hierarchy, None))
    for directory in (parent := tmp_path / "lbdns-lab", parent / "1a2b3c", tmp_path):
        directory.mkdir(exist_ok=True)
        (directory / file).write_text("1")
    group.favour()
    weights = [int((directory / file).read_text()) for directory in (tmp_path, parent, parent / "1a2b3c")]
    assert weights[0] == 1  # the kernel's root group has no weight
    assert weights[1] == weights[2] >= 10_000


@pytest.fixture
def name() -> str:
    return f"{control_groups.TOP}-test/{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def group(name: str) -> Iterator[ControlGroup]:
    found = make_group(f"{name}/web")
    try:
        yield found
    finally:
        lab = ControlGroup(name, found.hierarchies)
        lab.kill()
        lab.remove()


@real
class TestVersion1:
    def test_enters_from_the_first_instruction(self, group: ControlGroup) -> None:
        shown = subprocess.run(group.command("cat", "/proc/self/cgroup"), capture_output=True, text=True, check=True)
        inside = {line.split(":")[1]: line.split(":")[2] for line in shown.stdout.splitlines()}
        assert inside["cpu"] == inside["cpuacct"] == f"/{group.name}"

    def test_is_one_process_and_its_exit_status(self, group: ControlGroup) -> None:
        with subprocess.Popen(group.command("sh", "-c", "echo $$; exit 7"), stdout=subprocess.PIPE, text=True) as shell:
            assert shell.communicate()[0] == f"{shell.pid}\n"
        assert shell.returncode == 7

    def test_does_not_run_outside(self, group: ControlGroup) -> None:
        group.remove()
        done = subprocess.run(group.command("echo", "ran"), capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "ran" not in done.stdout

    def test_limits_the_cpu(self, group: ControlGroup) -> None:
        group.limit_cpu(0.2, 0.1)
        before, began = group.cpu_seconds(), time.monotonic()
        subprocess.run(group.command(*python(SPIN.format(0.3))), check=True, timeout=60)
        used, took = group.cpu_seconds() - before, time.monotonic() - began
        assert used >= 0.3
        # Of the first and of the last period it may use a fifth each, however short a part of them it sees
        assert used <= 0.2 * (took + 0.2)

    @pytest.mark.parametrize(("cores", "period"), [(0.001, 0.1), (0.5, 2.0), (0.5, 0.0005)])
    def test_limits_the_kernel_does_not_know(self, group: ControlGroup, cores: float, period: float) -> None:
        with pytest.raises(LbdnsError, match=r"cannot limit CPU to .* cores in periods of"):
            group.limit_cpu(cores, period)

    def test_limits_memory(self, group: ControlGroup) -> None:
        memory = group.hierarchies.memory
        if memory is None:
            with pytest.raises(LbdnsError, match="no memory controller"):
                group.limit_memory(2**25)
            return
        group.limit_memory(2**25)
        done = subprocess.run(group.command(*python("b'x' * 2**26")), capture_output=True, check=False, timeout=60)
        assert done.returncode == -9

    def test_counts_memory_without_the_page_cache(self, group: ControlGroup, tmp_path: Path) -> None:
        if group.hierarchies.memory is None:
            assert group.memory_bytes() is None
            return
        code = f"x = b'x' * 2**24; open('{tmp_path}/file', 'wb').write(x * 4); print(flush=True); input()"
        command = group.command(*python(code))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            program.stdout.readline()
            held = group.memory_bytes()
            assert held is not None
            # The kernel counts in batches of pages for each processor; x * 4 is given back when it is written
            assert 2**24 <= held < 2**24 + 2**25
            program.communicate(b"\n")

    def test_kills_everybody_in_it_and_below(self, name: str, group: ControlGroup) -> None:
        below = make_group(f"{group.name}/below")
        started = [
            subprocess.Popen(each.command("sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000"), start_new_session=True)
            for each in (group, below)
        ]
        lab = ControlGroup(name, group.hierarchies)
        eventually(lambda: len(lab.pids()) == 6, "two shells with two children each")
        assert len(below.pids()) == 3
        lab.kill()
        # A shell whose last program was killed before itself may just have come to end with that one's status
        assert {program.wait(60) for program in started} <= {-signal.SIGKILL, 128 + signal.SIGKILL}
        assert lab.pids() == set()

    def test_never_kills_this_process(self, group: ControlGroup) -> None:
        code = (
            "from lbdns_tools.lab.machines.control_groups import ControlGroup, find_hierarchies\n"
            f"ControlGroup({group.name!r}, find_hierarchies()).kill()"
        )
        command = group.command(sys.executable, "-c", code)
        path = os.pathsep.join(filter(None, sys.path))
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PYTHONPATH": path}
        )
        assert done.returncode == 1
        assert "is in the group; run the command outside the lab" in done.stderr

    def test_removes_all_that_it_made(self, name: str) -> None:
        group = make_group(f"{name}/web/below")
        assert all(directory.is_dir() for directory in group.directories())
        lab = ControlGroup(name, group.hierarchies)
        assert lab.remove()
        assert not lab.remove()
        assert not any(directory.exists() for directory in lab.directories())

    def test_is_not_removed_with_somebody_inside(self, group: ControlGroup, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(control_groups, "_REMOVE_S", 0.05)
        with subprocess.Popen(group.command("sleep", "1000")) as program:
            eventually(lambda: group.pids() == {program.pid}, "it is in the group")
            with pytest.raises(LbdnsError, match="cannot remove the control group: the group or a child"):
                group.remove()
            group.kill()


@pytest.fixture
def unified(tmp_path: Path) -> CgroupHierarchies:
    """Return a version 2 hierarchy before any lab starts: only the pids controller is enabled for child groups."""
    for folder in (tmp_path, tmp_path / "lbdns-lab", tmp_path / "lbdns-lab/abcdef"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (folder / "cgroup.subtree_control").write_text("pids\n")
        (folder / "cgroup.procs").write_text("")
    return find_hierarchies([mount(tmp_path, UNIFIED)])


class TestVersion2:
    def test_controllers_are_handed_down_to_the_group_and_no_further(self, unified: CgroupHierarchies) -> None:
        root = unified.cpu.point
        web = root / "lbdns-lab/abcdef/web"
        web.mkdir()
        (web / "cgroup.controllers").write_text("cpu memory\n")
        (web / "cgroup.subtree_control").write_text("")
        make_group("lbdns-lab/abcdef/web", unified)
        for folder in (root, root / "lbdns-lab", root / "lbdns-lab/abcdef"):
            assert (folder / "cgroup.subtree_control").read_text() == "+cpu +memory"
        # A group with processes can't hand anything down
        assert (web / "cgroup.subtree_control").read_text() == ""

    def test_what_is_handed_down_already_is_left_alone(self, unified: CgroupHierarchies) -> None:
        file = unified.cpu.point / "cgroup.subtree_control"
        file.write_text("cpuset cpu memory\n")
        make_group("lbdns-lab/abcdef/web", unified)
        assert file.read_text() == "cpuset cpu memory\n"

    def test_processes_in_the_way(self, unified: CgroupHierarchies, monkeypatch: pytest.MonkeyPatch) -> None:
        (unified.cpu.point / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")

        def refuse(*_: object) -> int:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

        monkeypatch.setattr(Path, "write_text", refuse)
        with pytest.raises(LbdnsError) as caught:
            make_group("lbdns-lab/abcdef/web", unified)
        message = str(caught.value)
        assert message.startswith(f"{unified.cpu.point}/cgroup.subtree_control: cannot enable cpu, memory: ")
        assert f"(including this process, {os.getpid()})" in message
        assert "Move the processes in" in message

    def test_one_directory(self, unified: CgroupHierarchies) -> None:
        group = make_group("lbdns-lab/abcdef/web", unified)
        assert group.directories() == [group.cpu_directory] == [unified.cpu.point / "lbdns-lab/abcdef/web"]
        shown = subprocess.run(group.command("sh", "-c", "echo $$"), capture_output=True, text=True, check=True)
        assert (group.cpu_directory / "cgroup.procs").read_text() == shown.stdout

    def test_limits(self, unified: CgroupHierarchies) -> None:
        group = make_group("lbdns-lab/abcdef/web", unified)
        (group.cpu_directory / "memory.swap.max").write_text("max\n")
        group.limit_cpu(0.07, 0.1)
        group.limit_memory(2**26)
        assert (group.cpu_directory / "cpu.max").read_text() == "7000 100000"
        assert (group.cpu_directory / "memory.max").read_text() == str(2**26)
        assert (group.cpu_directory / "memory.swap.max").read_text() == "0"

    def test_figures(self, unified: CgroupHierarchies) -> None:
        group = make_group("lbdns-lab/abcdef/web", unified)
        (group.cpu_directory / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
        (group.cpu_directory / "memory.current").write_text("10000\n")
        (group.cpu_directory / "memory.stat").write_text("anon 1\ninactive_file 3000\nactive_file 200\n")
        assert group.cpu_seconds() == 2.5
        assert group.memory_bytes() == 6800

    def test_processes_below_and_none_of_other_namespaces(self, unified: CgroupHierarchies) -> None:
        lab = unified.cpu.point / "lbdns-lab/abcdef"
        (lab / "web").mkdir()
        (lab / "web/cgroup.procs").write_text("11\n12\n0\n")
        (lab / "cgroup.procs").write_text("13\n")
        assert ControlGroup("lbdns-lab/abcdef", unified).pids() == {11, 12, 13}

    def test_removed_with_what_is_below(self, tmp_path: Path) -> None:
        (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
        (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
        unified = find_hierarchies([mount(tmp_path, UNIFIED)])
        for name in ("web", "web-agent"):
            make_group(f"lbdns-lab/abcdef/{name}", unified)
        lab = ControlGroup("lbdns-lab/abcdef", unified)
        assert lab.remove()
        assert not (tmp_path / "lbdns-lab").exists()
        assert not lab.remove()
