"""Tests of the fuzzing command: searching for failures, replaying inputs, and shrinking inputs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lbdns_tools.fuzz import __main__ as command
from lbdns_tools.fuzz.fuzz_targets import TARGETS, FuzzTarget, failure, load_target, shrink_input
from tests.needs import needs


class Picky:
    """A fuzz target that fails if the input contains both an 'x' and a 'y'."""

    SECONDS = 1.0

    def check(self, data: bytes) -> None:
        assert not (b"x" in data and b"y" in data)
        if b"z" in data:
            raise KeyError


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> FuzzTarget:
    target: FuzzTarget = Picky()  # type: ignore[assignment]
    monkeypatch.setattr(command, "load_target", lambda name: target)
    return target


@pytest.mark.parametrize(("data", "small"), [(b"aaxbbbbycc", b"xy"), (b"xy", b"xy"), (b"y" * 99 + b"x", b"yx")])
def test_shrinking_removes_all_that_the_error_does_not_need(picky: FuzzTarget, data: bytes, small: bytes) -> None:
    assert shrink_input(picky, data) == small


def test_errors_differ_by_kind_and_line(picky: FuzzTarget) -> None:
    assert failure(picky, b"xyz") == failure(picky, b"xy")
    assert failure(picky, b"z") not in (None, failure(picky, b"xy"))
    assert failure(picky, b"x") is None


def test_an_input_without_an_error_can_not_be_shrunk(picky: FuzzTarget) -> None:
    with pytest.raises(ValueError, match="the input to shrink must fail"):
        shrink_input(picky, b"x")


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fuzz", *arguments])
    return command.main()


def test_replay_and_shrink(picky: FuzzTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "found"
    path.write_bytes(b"abc")
    assert call(monkeypatch, "report", "--replay", str(path)) == 0
    path.write_bytes(b"1x2y3")
    with pytest.raises(AssertionError):
        call(monkeypatch, "report", "--replay", str(path))
    assert call(monkeypatch, "report", "--shrink", str(path)) == 0
    assert path.read_bytes() == b"xy"


def test_without_atheris_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.delitem(sys.modules, "lbdns_tools.fuzz.coverage_search", raising=False)
    assert call(monkeypatch, "report", "--seconds", "1") == 2
    assert "pip install -e './tools[fuzz]'" in capsys.readouterr().err


@needs(fuzzer=True)
@pytest.mark.parametrize("name", TARGETS)
def test_a_short_search(name: str, tmp_path: Path) -> None:
    corpus, found = tmp_path / "corpus", tmp_path / "found"
    arguments = [name, "--seconds", "2", "--corpus", str(corpus), "--found", str(found)]
    done = subprocess.run(
        [sys.executable, "-m", "lbdns_tools.fuzz", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"number_of_executed_units: *(\d+)", done.stderr)[0]) > 0
    assert corpus.is_dir()
    assert not list(found.iterdir())


#: A search with a bug in the decoder; the bug is inserted after loading, so that the code is instrumented before
WITH_A_BUG = """
import pathlib, sys
from lbdns_tools.fuzz import coverage_search, fuzz_targets
from tests.needs import needs

def load(name):
    target = fuzz_targets.load_target(name)
    sys.modules["lbdns_shared.report"].Report = lambda **_: 1 // 0
    return target

coverage_search.load_target = load
sys.exit(coverage_search.search("report", 4, None, pathlib.Path(sys.argv[1])))
"""


@needs(fuzzer=True)
def test_a_search_reports_an_error_and_goes_on(tmp_path: Path) -> None:
    found = tmp_path / "found"
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_BUG, str(found)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "stat::number_of_executed_units" in done.stderr
    inputs = list(found.iterdir())
    assert inputs
    for path in inputs:
        assert f"found {path}: ZeroDivisionError < " in done.stdout
        load_target("report").check(path.read_bytes())
