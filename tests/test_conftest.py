"""Checks that a test run behaves the same however it is started."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

from lbdns_shared import log
from tests.conftest import LONGEST_FILES, end_logs

_BEGUN_WITH_AMPERSAND = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"]
subprocess.run(child, check=True)
from tests.conftest import hear_interrupts
hear_interrupts()
subprocess.run(child, check=True)
"""


def test_programs_can_be_interrupted_although_the_tests_run_in_the_background() -> None:
    done = subprocess.run(
        (sys.executable, "-c", _BEGUN_WITH_AMPERSAND), cwd=Path(__file__).parents[1], capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["False", "True"], "")


def test_a_log_that_a_command_has_set_up_ends_with_its_test() -> None:
    root = logging.getLogger()
    before = root.handlers[:]
    log.set_up(level="debug")
    end_logs()
    assert not [handler for handler in root.handlers if type(handler).__module__ == log.__name__]
    assert root.level == logging.WARNING
    root.handlers[:] = before


def test_the_longest_files_exist() -> None:
    assert [path for path in LONGEST_FILES if not (Path(__file__).parents[1] / path).is_file()] == []


def test_the_longest_files_run_first() -> None:
    files = [LONGEST_FILES[3], "tests/test_needs.py", LONGEST_FILES[1]]
    folder = Path(__file__).parents[1]
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *files), cwd=folder,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = dict.fromkeys(line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line)
    assert list(found) == [files[2], files[0], files[1]]
