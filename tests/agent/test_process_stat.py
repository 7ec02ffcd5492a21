from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.process_stat import ProcessStat, ProcessStatFile, parse, read_process_stat

TAIL = "4242 1 1 0 -1 4194304 10 20 0 0 {utime} {stime} {cutime} {cstime} 20 0 {threads} 0 777 1000 200 0"


@pytest.mark.parametrize("name", ["apache2", "a b", ") S 1 (", "((", "\u00e9"])
def test_a_name_may_hold_anything(name: str) -> None:
    tail = TAIL.format(utime=3, stime=4, cutime=50, cstime=60, threads=7)
    assert parse(f"4711 ({name}) R {tail}".encode()) == ProcessStat("R", 4242, 7, 110, 7)


def test_this_process() -> None:
    stat = read_process_stat("/proc", os.getpid())
    assert stat is not None
    assert stat.parent == os.getppid()
    assert stat.state == "R"


def test_a_process_that_is_not_there() -> None:
    assert read_process_stat("/proc", 2**22 + 1) is None
    with pytest.raises(OSError, match="No such"):
        ProcessStatFile(f"/proc/{2**22 + 1}/stat")


@pytest.mark.parametrize("keep", [True, False])
def test_a_file_outlives_its_process(keep: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        file = ProcessStatFile(f"/proc/{child.pid}/stat", keep)
        assert parse(file.read()).parent == os.getpid()
        child.communicate(b"\n")
    assert file.read() == b""
    file.close()


@given(st.binary())
def test_anything_else_is_a_value_error(line: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse(line), ProcessStat)
