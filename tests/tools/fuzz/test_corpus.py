"""Checks that each fuzz target accepts its corpus: inputs that failed in the past, and inputs near the limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_tools.fuzz.fuzz_targets import TARGETS, load_target, run_target

FOLDER = Path(__file__).parents[2] / "fixtures" / "fuzz"
CASES = sorted(path for name in TARGETS for path in (FOLDER / name).iterdir())


@pytest.mark.parametrize("path", CASES, ids=[f"{path.parent.name}-{path.name}" for path in CASES])
def test_the_target_accepts_the_input(path: Path) -> None:
    run_target(load_target(path.parent.name), path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_has_inputs(name: str) -> None:
    assert len([path for path in CASES if path.parent.name == name]) >= 5


@pytest.mark.parametrize("path", CASES, ids=[f"{path.parent.name}-{path.name}" for path in CASES])
def test_the_input_is_small(path: Path) -> None:
    assert path.stat().st_size <= 1300
