"""Tests of finding a server's processes and of sampling their memory and descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_tools.faults.fault_farm import FarmPlan, FaultFarm
from lbdns_tools.faults.server_processes import (
    ResourceSampler,
    children,
    cpu_seconds,
    find_processes,
    is_alive,
    memory,
    open_descriptors,
)
from lbdns_tools.faults.waiting import wait_for

PROGRAM = "import sys; data = bytearray(50_000_000); files = [open('/dev/null') for _ in range(20)]; sys.stdin.read()"


@pytest.fixture
def child() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        process.communicate()


def test_memory_and_descriptors_of_a_process(child: int) -> None:
    assert wait_for(lambda: memory(child) > 50_000_000 and open_descriptors(child) >= 23, 120)
    assert memory(child) < 200_000_000
    assert cpu_seconds(child) > 0
    assert child in children(os.getpid())


def test_a_process_that_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    assert wait_for(lambda: not is_alive(process.pid), 120), "a zombie is not alive"
    process.wait()
    assert (memory(process.pid), open_descriptors(process.pid), cpu_seconds(process.pid)) == (0, 0, 0)
    assert children(process.pid) == []


@pytest.mark.parametrize("workers", [1, 3])
def test_the_processes_of_a_server(workers: int, tmp_path: Path) -> None:
    with FaultFarm(tmp_path, FarmPlan(workers=workers, agents=())) as farm:
        farm.start()
        assert wait_for(lambda: len(find_processes(farm.server.pid).workers) == (workers if workers > 1 else 0), 120)
        found = find_processes(farm.server.pid)
        assert found.main == farm.server.pid
        assert bool(found.fork_servers) == (workers > 1)
        assert len(set(found.all)) == len(found.all)
        with ResourceSampler(farm.processes, 0.01) as sampler:
            assert wait_for(lambda: len(sampler.samples) > 3, 120)
        assert all(sample.memory > 10_000_000 and sample.descriptors > 5 for sample in sampler.samples)
    assert find_processes(found.main).workers == ()
