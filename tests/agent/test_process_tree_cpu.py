"""Tests of the CPU time of real process trees: it includes every process and never decreases."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lbdns_agent.webserver import process_tree_cpu
from lbdns_agent.webserver.process_tree_cpu import SCAN_EVERY, SEARCHES, ProcessTreeCpu, ignores_children
from tests.agent.waiting import until
from tests.agent.web import ForkingServer
from tests.needs import needs

BURN = "end = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"
#: Statements for the first process: a child that burns processor time and is waited for, and one that is not.
BURN_HERE = f"import time; exec({BURN.format(seconds=0.2)!r})"
BURN_IN_CHILD = (
    "import time\npid = os.fork()\nif pid == 0:\n    "
    + BURN.format(seconds=0.2).replace("\n", "\n    ")
    + "\n    os._exit(0)"
)


@pytest.fixture
def server() -> Iterator[ForkingServer]:
    with ForkingServer(children=2) as server:
        yield server


def seconds_of(tree: ProcessTreeCpu) -> float:
    seconds = tree.seconds()
    assert seconds is not None
    return seconds


def tell(server: ForkingServer, program: str) -> None:
    server.do(f"exec({program!r})")


def test_root_and_children_are_found(server: ForkingServer) -> None:
    tree = ProcessTreeCpu([server.pid])
    seconds_of(tree)
    assert tree.pids() == {server.pid, *server.children}


def test_what_the_root_itself_uses_is_counted(server: ForkingServer) -> None:
    tree = ProcessTreeCpu([server.pid])
    before = seconds_of(tree)
    tell(server, BURN_HERE)
    assert seconds_of(tree) - before == pytest.approx(0.2, abs=0.05)


def test_a_child_counts_while_it_runs_and_after_it_was_waited_for(server: ForkingServer) -> None:
    tree = ProcessTreeCpu([server.pid])
    before = seconds_of(tree)
    tell(server, BURN_IN_CHILD)
    seen = [before]
    # Watched while the child runs, ends, is a zombie, and is waited for
    until(lambda: seen.append(seconds_of(tree)) or seen[-1] - before >= 0.15)  # type: ignore[func-returns-value]
    server.do("os.waitpid(pid, 0)")
    seen.append(seconds_of(tree))
    assert seen == sorted(seen), "it fell"
    assert seen[-1] - before == pytest.approx(0.2, abs=0.06)
    assert tree.pids() == {server.pid, *server.children}


def test_a_grandchild_counts(server: ForkingServer) -> None:
    tree = ProcessTreeCpu([server.pid])
    before = seconds_of(tree)
    child = BURN_IN_CHILD.replace("\n", "\n    ")
    tell(server, f"pid = os.fork()\nif pid == 0:\n    {child}\n    os.waitpid(pid, 0)\n    os._exit(0)")
    server.do("os.waitpid(pid, 0)")
    assert seconds_of(tree) - before == pytest.approx(0.2, abs=0.06)


def test_the_sum_does_not_fall_when_a_daemon_leaves_the_tree(server: ForkingServer) -> None:
    tell(server, "read_end, write_end = os.pipe()")
    tree = ProcessTreeCpu([server.pid])
    before = seconds_of(tree)
    # A child burns and waits; its parent ends before it, so it goes to init with all that it has used
    tell(
        server,
        "import time\npid = os.fork()\nif pid == 0:\n    os.close(write_end)\n    if os.fork():\n"
        "        os.read(read_end, 1)\n        os._exit(0)\n    "
        + BURN.format(seconds=0.2).replace("\n", "\n    ")
        + "\n    os.read(read_end, 1)\n    os._exit(0)",
    )
    server.do("os.close(read_end)")
    until(lambda: seconds_of(tree) - before > 0.18)
    high = seconds_of(tree)
    server.do("os.kill(pid, 9)", "os.waitpid(pid, 0)")
    after = seconds_of(tree)
    assert after >= high
    tell(server, BURN_HERE)
    assert seconds_of(tree) - after == pytest.approx(0.2, abs=0.06), "what comes later counts in full"
    server.do("os.close(write_end)")


IGNORE = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"


@needs(root=True)
def test_children_that_nobody_waits_for_are_counted_by_a_clock(server: ForkingServer) -> None:
    """As with Apache's mod_cgid, all children have ended when the tree is read."""
    server.do(IGNORE, "read_end, write_end = os.pipe()")
    tree = ProcessTreeCpu([server.pid])
    before = seconds_of(tree)
    assert tree.pids() == {server.pid, *server.children}
    for _ in range(2):
        tell(server, BURN_IN_CHILD.replace("os._exit(0)", "os.write(write_end, b'x'); os._exit(0)"))
        server.do("os.read(read_end, 1)")
        until(lambda: len(children_of(server.pid)) == len(server.children))
    after = seconds_of(tree)
    assert after - before == pytest.approx(0.4, abs=0.08)
    tell(server, BURN_HERE)
    assert seconds_of(tree) - after == pytest.approx(0.2, abs=0.05), "its own time counts once"
    assert tree.pids() == {server.pid, *server.children}
    server.process.kill()
    server.process.wait()
    assert tree.seconds() is None


def test_without_permission_for_a_clock_what_was_seen_is_kept(
    server: ForkingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(process_tree_cpu, "InheritedCpuClock", refused)
    server.do(IGNORE, "read_end, write_end = os.pipe()")
    tree = ProcessTreeCpu([server.pid])
    before = seconds_of(tree)
    # The child waits until the tree has seen what it used
    tell(server, BURN_IN_CHILD.replace("os._exit(0)", "os.read(read_end, 1); os._exit(0)"))
    until(lambda: seconds_of(tree) - before > 0.1)
    server.do("os.write(write_end, b'x')")
    until(lambda: len(children_of(server.pid)) == len(server.children))
    assert 0.1 < seconds_of(tree) - before < 0.3


def test_who_ignores_its_children(server: ForkingServer) -> None:
    assert not ignores_children("/proc", server.pid)
    server.do(IGNORE)
    assert ignores_children("/proc", server.pid)
    assert not ignores_children("/proc", 2**22 + 1)


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_tree_whose_root_has_ended_is_none(server: ForkingServer) -> None:
    tree = ProcessTreeCpu([server.pid])
    seconds_of(tree)
    server.process.kill()
    server.process.wait()
    assert tree.seconds() is None


def test_a_tree_never_falls_while_children_come_and_go(server: ForkingServer) -> None:
    tell(
        server,
        "import threading, time\nstop = False\n"
        "def churn():\n"
        "    while not stop:\n"
        "        pid = os.fork()\n"
        "        if pid == 0:\n"
        "            end = time.process_time() + 0.012\n"
        "            while time.process_time() < end: pass\n"
        "            os._exit(0)\n"
        "        os.waitpid(pid, 0)\n"
        "thread = threading.Thread(target=churn); thread.start()",
    )
    tree = ProcessTreeCpu([server.pid])
    seen: list[float] = []
    end = time.monotonic() + 1.0
    while time.monotonic() < end or len(seen) <= 50:
        seen.append(seconds_of(tree))
    server.do("stop = True; thread.join()")
    assert seen == sorted(seen)
    # What the kernel knows when all have been waited for is what was counted
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    true = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    for child in server.children:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        true += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    assert seconds_of(tree) == pytest.approx(true, abs=0.1)


def test_a_kernel_without_children_files(server: ForkingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ProcessTreeCpu([server.pid])
    monkeypatch.setattr(tree, "_has_children_files", False)
    before = seconds_of(tree)
    assert tree.pids() == {server.pid, *server.children}
    tell(server, BURN_IN_CHILD)
    for _ in range(SCAN_EVERY):
        seconds_of(tree)
    assert len(tree.pids()) == 4
    server.do("os.waitpid(pid, 0)")
    assert seconds_of(tree) - before == pytest.approx(0.2, abs=0.06)


class MadeProc:
    """A fake /proc that changes only when the test changes it, unlike a real /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._faults: dict[int, int] = {}
        self.add(os.getpid(), 0)  # by its own children file the tree sees whether the kernel has any

    def add(self, pid: int, parent: int) -> None:
        task = self.root / str(pid) / "task" / str(pid)
        task.mkdir(parents=True)
        (task / "children").touch()
        self._faults[pid] = 0
        self.has_run(pid, parent)
        if parent:
            with (self.root / str(parent) / "task" / str(parent) / "children").open("a") as children:
                children.write(f"{pid} ")
            self.has_run(parent)

    def has_run(self, pid: int, parent: int | None = None) -> None:
        """Increase the count of minor faults in the process's stat line, as a fork would (see proc_pid_stat(5))."""
        stat = self.root / str(pid) / "stat"
        self._faults[pid] += 1
        above = stat.read_text().split()[3] if parent is None else parent
        stat.write_text(f"{pid} (made) S {above} 1 1 0 -1 0 {self._faults[pid]} 0 0 0 5 5 0 0 20 0 1 0 100 0 0\n")


def made_farm(root: Path, count: int) -> tuple[MadeProc, list[int]]:
    """Create process 1000 with ``count`` children, too many for a single round of the search."""
    made = MadeProc(root)
    made.add(1000, 0)
    children = list(range(1001, 1001 + count))
    for child in children:
        made.add(child, 1000)
    return made, children


def rounds_until_found(tree: ProcessTreeCpu, sought: set[int], between: Callable[[], None] = lambda: None) -> int:
    """Return how many reads it takes to find the child (100 if it is not found); call ``between`` before each read."""
    for rounds in range(1, 100):
        between()
        seconds_of(tree)
        if sought <= tree.pids():
            return rounds
    return 100


def test_a_tree_larger_than_the_ration_is_found_within_rounds(tmp_path: Path) -> None:
    made, children = made_farm(tmp_path, SEARCHES + SEARCHES // 2)
    made.add(3000, children[-1])
    tree = ProcessTreeCpu([1000], str(tmp_path))
    assert seconds_of(tree) == pytest.approx(10 * (len(children) + 2) / os.sysconf("SC_CLK_TCK"))
    assert tree.pids() == {1000, *children, 3000}, "what is new is searched at once"
    for child in children:
        made.add(child + 1000, child)
    # A grandchild takes two searches: its parent's, and its own
    at_best = 2 * len(children) / SEARCHES
    assert at_best <= rounds_until_found(tree, {child + 1000 for child in children}) <= at_best + 1
    tree.close()


def test_in_a_tree_that_is_always_busy_the_ration_comes_to_everybody(tmp_path: Path) -> None:
    made, children = made_farm(tmp_path, 4 * SEARCHES)
    tree = ProcessTreeCpu([1000], str(tmp_path))
    seconds_of(tree)
    last = children[-1]
    made.add(last + 1000, last)

    def round_of_work() -> None:
        for child in children:
            made.has_run(child)

    assert 1 < rounds_until_found(tree, {last + 1000}, round_of_work) <= len(children)
    tree.close()


def test_files_of_processes_that_are_gone_are_closed(server: ForkingServer) -> None:
    tree = ProcessTreeCpu([server.pid])
    seconds_of(tree)
    opened = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        server.do("pid = os.fork() or os._exit(0)", "os.waitpid(pid, 0)")
        seconds_of(tree)
    assert len(os.listdir("/proc/self/fd")) <= opened + 1
    tree.close()
    assert len(os.listdir("/proc/self/fd")) < opened
