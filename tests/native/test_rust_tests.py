"""Runs the Rust tests of the native part, and model checks of what its threads share with Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.needs import needs

HERE = Path(__file__).resolve().parent
TARGET = HERE.parents[1] / "build" / "native-tests"
LONGEST_S = 800.0  # building loom takes over a minute on a busy machine


@needs(native=True)
@pytest.mark.skipif(not shutil.which("cargo"), reason="the native extension was installed as a wheel")
@pytest.mark.parametrize("options", [(), ("--features", "loom", "--test", "models")], ids=["tests", "models"])
def test_rust_tests_pass(options: tuple[str, ...]) -> None:
    command = ("cargo", "test", "--release", "--locked", "--tests", "--target-dir", str(TARGET), *options)
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test result: ok." in done.stdout
