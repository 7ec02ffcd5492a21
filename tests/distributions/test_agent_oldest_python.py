"""Runs the agent's tests on Python 3.9, the oldest version that the agent supports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final
from zlib import crc32

import pytest

from tests.needs import REASON_PREFIX

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("tests/agent", "tests/shared")
#: msgpack: the oldest that needs no compiler on Python 3.9
PACKAGES: Final = (
    "msgpack==1.0.2", "psutil", "matplotlib", "pytest", "pytest-asyncio", "pytest-xdist", "hypothesis", "cryptography",
)  # fmt: skip
PROCESSES: Final = "4"  # more than the usual number of processors, because most of these tests wait for timers
LONGEST: Final = 600  # seconds: about 60 on two free processors


def find_python() -> str:
    """Return a Python 3.9 from PATH or pyenv. Skips the test if there is none, even with CI=true."""
    in_path = filter(None, [shutil.which("python3.9")])
    for found in (*in_path, *map(str, Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"))):
        # What is in PATH may be pyenv's launcher, which fails unless that version is selected
        if subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    pytest.skip(f"{REASON_PREFIX}Python 3.9: run `pyenv install 3.9`")


def make_environment(python: str) -> Path:
    """Return the Python of a virtual environment with the packages that the tests import, creating it if necessary.

    It is made once for each list of packages. The environment is renamed when it is complete, so that two concurrent
    runs do not interfere.
    """
    folder = Path(sys.prefix) / f"agent-python3.9-{crc32(' '.join(PACKAGES).encode()):08x}"
    if not folder.exists():
        new = folder.with_name(f"{folder.name}.{os.getpid()}")
        subprocess.run([python, "-m", "venv", str(new)], check=True, timeout=LONGEST)
        command = [str(new / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(command, check=True, timeout=LONGEST)
        new.rename(folder)
    return folder / "bin" / "python"


def test_the_agent_runs_on_python_3_9() -> None:
    python = make_environment(find_python())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "agent", ROOT / "tools")))}
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", PROCESSES, *FOLDERS]
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
    )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2_000:]
    assert " passed" in run.stdout
