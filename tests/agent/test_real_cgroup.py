"""Tests with busy processes in real control groups (v1 or v2) of this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_agent.cgroup.find_cgroup import find_cgroup
from lbdns_agent.cgroup.service_cgroup import find_service_cgroup
from lbdns_agent.host_sampler import HostSampler
from lbdns_agent.kernel_files import ProcFiles
from lbdns_agent.metrics import METRIC_SENSORS
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.process_stat import TICKS_PER_SECOND, read_process_stat
from lbdns_agent.sensor import MeasuredHost
from lbdns_agent.webserver.monitored_web_server import MonitoredWebServer
from tests.agent.cgroups import cpu_mount, limited_group, move_in
from tests.agent.waiting import until
from tests.agent.web import ForkingServer
from tests.needs import needs

pytestmark = needs(root=True)

NAMES = ("run_queue", "cpu_idle", "cpu_steal", "cpu_count", "mem_available", "scan_rate")
OF_A_GROUP = {name: METRIC_SENSORS[name] for name in NAMES}


@contextlib.contextmanager
def burners(count: int) -> Iterator[list[int]]:
    """Start processes that use all available CPU time."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def two_samples(choice: str, gap: float = 1.0) -> dict[str, float]:
    sampler = HostSampler(MeasuredHost(ProcFiles(), find_cgroup(choice)), SensorTasks(), OF_A_GROUP)
    sampler.sample(0.0, 1.0)
    time.sleep(gap)
    return dict(sampler.sample(0.0, 1.0).metrics)


@pytest.mark.parametrize("with_accounting", [True, False])
def test_a_burner_in_a_limited_group(with_accounting: bool) -> None:
    """The limit is so low that even a busy machine would run the burners longer."""
    with limited_group(0.05, with_accounting) as path, burners(2) as pids:
        for pid in pids:
            move_in(path, pid)
        metrics: dict[str, float] = {}

        def limited() -> bool:
            """Other processes may keep even such a small part of the CPU time from the burners for a while."""
            metrics.update(two_samples(path))
            return metrics["cpu_idle"] < 40.0 and metrics["cpu_steal"] > 5.0

        until(limited)
    assert metrics["cpu_count"] == pytest.approx(0.05)
    assert metrics["run_queue"] == 2.0
    assert 0.0 < metrics["mem_available"] <= 100.0


def test_an_idle_limited_group_on_a_busy_host() -> None:
    with limited_group(0.3) as path, burners(2), ForkingServer() as sleeper:
        move_in(path, sleeper.pid)
        metrics: dict[str, float] = {}

        def idle() -> bool:
            """The sleeper has just started; on a busy machine it may take a while until it sleeps."""
            metrics.update(two_samples(path, gap=0.5))
            return metrics["cpu_idle"] > 90.0 and metrics["cpu_steal"] == metrics["run_queue"] == 0.0

        until(idle)
    assert metrics["cpu_count"] == pytest.approx(0.3)


def test_by_the_directory() -> None:
    mount, _ = cpu_mount()
    with limited_group(0.4) as path:
        group = find_cgroup(str(mount.point / path.strip("/")))
        assert group is not None
        assert group.quota() == pytest.approx(0.4)


SELF = """
import json, os, sys
from lbdns_agent.cgroup.find_cgroup import find_cgroup
sys.stdin.readline()
group = find_cgroup("auto")
print(json.dumps(None if group is None else [group.quota(), group.runnable()]))
"""


def test_auto_is_the_group_of_the_agent_itself() -> None:
    with (
        limited_group(0.5) as path,
        subprocess.Popen(
            [sys.executable, "-c", SELF], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as agent,
    ):
        move_in(path, agent.pid)
        out, _ = agent.communicate("go\n")
    assert out == "[0.5, 0]\n", "the agent itself is not counted"


def test_outside_of_every_limited_group_the_figures_are_the_hosts() -> None:
    group = find_cgroup("auto")
    assert group is None or group.quota() is None or group.quota() != 0.2
    with limited_group(0.2):
        assert two_samples("off", gap=0.1)["cpu_count"] == os.cpu_count()


def test_a_web_server_with_a_group_of_its_own_is_counted_by_it() -> None:
    with limited_group(1.0) as path, ForkingServer() as server:
        with burners(1) as (start_script,):
            move_in(path, start_script)
            until(lambda: used_by(start_script) > 0.3)
        for pid in (server.pid, *server.children):
            move_in(path, pid)
        pids = {server.pid, *server.children}
        group = find_service_cgroup([server.pid], pids)
        assert group is not None
        assert group.directory.name == Path(path).name
        before = group.seconds()
        web = MonitoredWebServer(lambda: (bytes((127, 0, 0, 1)),), server.port)
        first = web.cpu_seconds()
        assert before <= first <= group.seconds(), "the group's CPU time, with that of processes that have ended"
        server.do("import time; exec('end = time.process_time() + 0.2\\nwhile time.process_time() < end: pass')")
        web.start_round()
        used = group.seconds() - before
        assert used == pytest.approx(0.2, abs=0.08)
        assert web.cpu_seconds() - first == pytest.approx(used, abs=0.02)
        with ForkingServer() as stranger:
            move_in(path, stranger.pid)
            assert find_service_cgroup([server.pid], pids) is None, "somebody else's time would be counted"
        root = Path(group.directory).parent / "cgroup.procs"
        root.write_text(str(server.children[0]))
        assert find_service_cgroup([server.pid], pids) is None, "a part of the server is elsewhere"


def test_what_strangers_burn_in_a_web_servers_group_is_not_the_servers() -> None:
    """The other processes join the group after the agent has found only the web server in it."""
    with limited_group(1.0) as path, ForkingServer() as server:
        for pid in (server.pid, *server.children):
            move_in(path, pid)
        web = MonitoredWebServer(lambda: (bytes((127, 0, 0, 1)),), server.port)
        first = web.cpu_seconds()
        with burners(1) as (stranger,):
            move_in(path, stranger)
            until(lambda: used_by(stranger) > 0.5)
            web.start_round()
            assert web.cpu_seconds() - first == pytest.approx(0.0, abs=0.04)
            server.do("import time; exec('end = time.process_time() + 0.2\\nwhile time.process_time() < end: pass')")
            web.start_round()
            assert web.cpu_seconds() - first == pytest.approx(0.2, abs=0.06), "and its own time goes on counting"


def used_by(pid: int) -> float:
    """CPU seconds."""
    stat = read_process_stat("/proc", pid)
    assert stat is not None
    return stat.used / TICKS_PER_SECOND
