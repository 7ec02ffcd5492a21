"""Tests of the tables in docs/reliability.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_shared.errors import LbdnsError
from lbdns_tools.faults import reliability_page
from lbdns_tools.faults.fault import FaultOutcome

HELD = FaultOutcome("a.held", "this", "that", sent=100, lost=3, recover_s=1.25, memory_mb=(50.0, 60.0, 51.0))
FAILED = FaultOutcome("a.failed", "a | b", "that", "FAILED", ["two\nlines"])
SKIPPED = FaultOutcome("a.skipped", "this", "that", "skipped", ["no libfaketime"])


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "reliability.md"
    tables = (
        f"{reliability_page.begin_marker(name)}\n{reliability_page.end_marker(name)}\n" for name in ("faults", "soak")
    )
    path.write_text("before\n" + "between\n".join(tables) + "after\n")
    return path


def test_rows() -> None:
    assert reliability_page.row(HELD) == (
        "| `a.held` | this | that | yes | 3 / 0 of 100 | 0 | 1.2 s | start 50, peak 60, end 51 MB |"
    )
    assert "| **no**: two lines |" in reliability_page.row(FAILED)
    assert "a \\| b" in reliability_page.row(FAILED)
    assert "| skipped: no libfaketime |" in reliability_page.row(SKIPPED)


def test_a_run_replaces_its_own_rows_only(page: Path) -> None:
    reliability_page.write([HELD, FAILED], page)
    first = page.read_text()
    reliability_page.write([SKIPPED, FaultOutcome("a.failed", "this", "that")], page)
    text = page.read_text()
    assert [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")] == [
        "a.held", "a.failed", "a.skipped",
    ]  # fmt: skip
    assert "**no**" in first
    assert "**no**" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")


def test_sections_are_independent(page: Path) -> None:
    reliability_page.write_section("soak", "an hour", page)
    reliability_page.write([HELD], page)
    assert reliability_page.section(page.read_text(), "soak") == "\nan hour\n"


def test_a_page_without_markers(tmp_path: Path) -> None:
    path = tmp_path / "reliability.md"
    path.write_text("nothing\n")
    with pytest.raises(LbdnsError, match="must contain exactly one line"):
        reliability_page.write([HELD], path)


def test_the_page_of_this_checkout_has_the_markers() -> None:
    text = reliability_page.PAGE.read_text()
    for name in ("faults", "soak"):
        assert reliability_page.section(text, name)
