from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from lbdns_agent.kernel_files import ProcFiles
from lbdns_agent.metrics import process_count, task_count
from lbdns_agent.sensor import MeasuredHost


def test_only_processes_count(tmp_path: Path) -> None:
    for name in ("1", "27", "4194304", "acpi", "self", "driver", "sys"):
        (tmp_path / name).mkdir()
    (tmp_path / "loadavg").touch()
    host = MeasuredHost(ProcFiles(tmp_path))
    assert process_count.SENSOR.values(None, process_count.read(host), 0.0) == {"process_count": 3}


def test_processes_are_not_more_than_tasks() -> None:
    host = MeasuredHost(ProcFiles())
    for _ in range(100):
        found = process_count.read(host)
        host.start_round()
        if found <= task_count.read(host):
            return
    pytest.fail(f"{found} processes, but only {task_count.read(host)} processes and threads")


def test_without_proc_psutil_counts() -> None:
    assert process_count.read_psutil(SimpleNamespace(pids=lambda: [0, 1, os.getpid()])) == 3
