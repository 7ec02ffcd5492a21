"""The command: searching, trying single inputs, making them smaller."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lbdns_tools.fuzz import __main__ as command
from lbdns_tools.fuzz.shrink import complaint, shrunk
from lbdns_tools.fuzz.targets import TARGETS, Target, load
from tests.needs import needs


class Picky:
    """A target for which bytes with both an 'x' and a 'y' are wrong."""

    SECONDS = 1.0

    def check(self, data: bytes) -> None:
        assert not (b"x" in data and b"y" in data)
        if b"z" in data:
            raise KeyError


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> Target:
    target: Target = Picky()  # type: ignore[assignment]
    monkeypatch.setattr(command, "load", lambda name: target)
    return target


@pytest.mark.parametrize(("data", "small"), [(b"aaxbbbbycc", b"xy"), (b"xy", b"xy"), (b"y" * 99 + b"x", b"yx")])
def test_what_is_not_needed_for_it_is_taken_out(picky: Target, data: bytes, small: bytes) -> None:
    assert shrunk(picky, data) == small


def test_another_error_is_another_matter(picky: Target) -> None:
    assert complaint(picky, b"xyz") == complaint(picky, b"xy")
    assert complaint(picky, b"z") not in (None, complaint(picky, b"xy"))
    assert complaint(picky, b"x") is None


def test_what_nothing_is_wrong_with_is_not_made_smaller(picky: Target) -> None:
    with pytest.raises(ValueError, match="nothing goes wrong"):
        shrunk(picky, b"x")


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fuzz", *arguments])
    return command.main()


def test_replay_and_shrink(picky: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "found"
    path.write_bytes(b"abc")
    assert call(monkeypatch, "report", "--replay", str(path)) == 0
    path.write_bytes(b"1x2y3")
    with pytest.raises(AssertionError):
        call(monkeypatch, "report", "--replay", str(path))
    assert call(monkeypatch, "report", "--shrink", str(path)) == 0
    assert path.read_bytes() == b"xy"


def test_without_atheris_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.delitem(sys.modules, "lbdns_tools.fuzz.search", raising=False)
    assert call(monkeypatch, "report", "--seconds", "1") == 2
    assert "pip install -e '.[fuzz]'" in capsys.readouterr().err


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


#: What searches with a mistake in the decoder; it is made after loading, so that the code is instrumented before.
WITH_A_MISTAKE = """
import pathlib, sys
from lbdns_tools.fuzz import search, targets
from tests.needs import needs

def load(name):
    target = targets.load(name)
    sys.modules["lbdns.report"]._shown = lambda value: 1 // 0
    return target

search.load = load
sys.exit(search.search("report", 4, None, pathlib.Path(sys.argv[1])))
"""


@needs(fuzzer=True)
def test_a_search_that_finds_something_says_so_and_goes_on(tmp_path: Path) -> None:
    found = tmp_path / "found"
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_MISTAKE, str(found)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "stat::number_of_executed_units" in done.stderr
    inputs = list(found.iterdir())
    assert inputs
    for path in inputs:
        assert f"found {path}: ZeroDivisionError < " in done.stdout
        load("report").check(path.read_bytes())
