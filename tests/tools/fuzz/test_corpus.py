"""Inputs that showed a mistake once, or lie where one would be: each is given to its target again."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_tools.fuzz.targets import TARGETS, load, run

FOLDER = Path(__file__).parents[2] / "fixtures" / "fuzz"
CASES = sorted(path for name in TARGETS for path in (FOLDER / name).iterdir())


@pytest.mark.parametrize("path", CASES, ids=[f"{path.parent.name}-{path.name}" for path in CASES])
def test_it_is_taken_as_it_should(path: Path) -> None:
    run(load(path.parent.name), path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_there_are_cases(name: str) -> None:
    assert len([path for path in CASES if path.parent.name == name]) >= 5


@pytest.mark.parametrize("path", CASES, ids=[f"{path.parent.name}-{path.name}" for path in CASES])
def test_it_is_small(path: Path) -> None:
    assert path.stat().st_size <= 1300
