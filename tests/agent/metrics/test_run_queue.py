from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.kernel_files import ProcFiles
from lbdns_agent.metrics import run_queue
from lbdns_agent.sensor import MeasuredHost
from tests.agent.fixtures import host_with_kernel, proc_file

RUNNING = {"2.6.32": 3, "3.10": 6, "4.19": 2, "5.10": 1, "6.1": 17, "6.18": 2}


@pytest.mark.parametrize(("kernel", "running"), RUNNING.items())
def test_parse(kernel: str, running: int) -> None:
    assert run_queue.parse(proc_file(kernel, "stat")) == running


@pytest.mark.parametrize(("kernel", "running"), RUNNING.items())
def test_loadavg_tells_the_same(kernel: str, running: int) -> None:
    assert run_queue.parse_loadavg(proc_file(kernel, "loadavg")) == running


@pytest.mark.parametrize(("kernel", "running"), RUNNING.items())
def test_the_sampler_is_not_counted(kernel: str, running: int) -> None:
    host = host_with_kernel(kernel)
    assert run_queue.SENSOR.values(None, run_queue.read(host), 0.0) == {"run_queue": running - 1}
    assert run_queue.quick_read(host) == {"run_queue": running - 1}


def test_never_below_zero(tmp_path: Path) -> None:
    (tmp_path / "stat").write_bytes(b"cpu  1 2 3 4\nprocs_running 0\n")
    assert run_queue.read(MeasuredHost(ProcFiles(tmp_path))) == 0


@given(st.binary() | st.text("procs_running \n0123456789/x").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    for parse in (run_queue.parse, run_queue.parse_loadavg):
        with contextlib.suppress(ValueError):
            assert isinstance(parse(text), int)
