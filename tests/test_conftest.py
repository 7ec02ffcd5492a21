"""Tests run the same however they were started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
