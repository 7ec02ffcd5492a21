"""Tests of detecting which plane of lbdns answers queries."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lbdns_tools.bench.dns import compared_servers
from lbdns_tools.bench.dns.benchmark_farm import BenchmarkFarm
from lbdns_tools.bench.dns.compared_servers import serving_lbdns, verified_plane
from lbdns_tools.bench.measured_processes import BenchmarkError, MeasuredProcess
from tests.needs import needs

READY = "INFO lbdns.server: ready: 2 zones, 1 pool, native plane\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MeasuredProcess]:
    """Yield a running process whose log is empty."""
    log = tmp_path / "log"
    log.touch()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield MeasuredProcess("lbdns", process, log)
        process.kill()


def test_the_plane_is_awaited(server: MeasuredProcess) -> None:
    def write() -> None:
        time.sleep(0.2)
        server.log.write_text(READY)

    threading.Thread(target=write).start()
    assert verified_plane(server, "auto") == verified_plane(server, "native") == "native"
    with pytest.raises(BenchmarkError, match="must use the python plane, but uses the native plane"):
        verified_plane(server, "python")


def test_a_server_that_does_not_name_its_plane_is_an_error(
    server: MeasuredProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compared_servers, "START", 0.1)
    with pytest.raises(BenchmarkError, match=r"lbdns did not log which plane answers within 0\.1 s"):
        verified_plane(server, "auto")


@needs(programs=("taskset",))
def test_the_note_names_the_plane_of_a_real_server(tmp_path: Path) -> None:
    with serving_lbdns(BenchmarkFarm(tmp_path, plane="python"), 0) as server:
        assert server.note == "rate limiting: on; python plane"
