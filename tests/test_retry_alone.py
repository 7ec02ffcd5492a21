"""Tests of the plugin that runs failed tests once more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.retry_alone import HEADING

ROOT = Path(__file__).resolve().parent.parent

#: Each test counts its runs in a file of its own
TESTS = """
import pathlib

def runs(name):
    path = pathlib.Path(__file__).with_name(name)
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    return len(path.read_text())

def test_passes():
    assert runs("passes") == 1

def test_fails_once():
    assert runs("once") == 2

def test_always_fails():
    runs("always")
    assert False
"""


@pytest.mark.parametrize(
    ("selection", "limit", "status", "runs"),
    [
        ("passes or once", 1, 0, {"passes": 1, "once": 2}),
        ("once", 0, 1, {"once": 1}),
        ("always", 3, 1, {"always": 2}),
        ("once or always", 2, 1, {"once": 2, "always": 2}),
        ("once or always", 1, 1, {"once": 1, "always": 1}),
        ("passes", 3, 0, {"passes": 1}),
    ],
)
def test_the_status_and_the_number_of_runs(
    tmp_path: Path, selection: str, limit: int, status: int, runs: dict[str, int]
) -> None:
    (tmp_path / "test_examples.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\nasyncio_default_fixture_loop_scope = function\npythonpath = {ROOT}\n"
    )
    options = ("-p", "tests.retry_alone", "--retry-alone", str(limit), "--numprocesses", "2", "-k", selection)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    counted = [path for name in ("passes", "once", "always") if (path := tmp_path / name).exists()]
    found = {path.name: len(path.read_text()) for path in counted}
    assert (ended.returncode, found) == (status, runs), ended.stdout + ended.stderr
    unreliable = ended.stdout.partition(HEADING)[2].splitlines()[1:]
    assert unreliable == (["test_examples.py::test_fails_once"] if status == 0 and "once" in runs else [])
