"""Writes the outcomes of a run between the markers in docs/reliability.md."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.faults.fault import RATE, FaultOutcome

PAGE: Final = Path(__file__).parents[3] / "docs" / "reliability.md"
HEAD: Final = (
    "| fault | what was done | what must hold | held | queries lost / after one retry | wrong | recovery | memory |\n"
    "|---|---|---|---|---|---|---|---|"
)


def begin_marker(table: str) -> str:
    return f"<!-- {table}: begin; written by a run -->"


def end_marker(table: str) -> str:
    return f"<!-- {table}: end -->"


def write(outcomes: Sequence[FaultOutcome], path: Path = PAGE) -> Path:
    """Replace the rows of the faults in ``outcomes``, keep all other rows, and return the path. Raises LbdnsError."""
    text = _read(path)
    kept = rows_by_name(section(text, "faults"))
    kept |= {outcome.name: row(outcome) for outcome in outcomes}
    today = datetime.date.today().isoformat()
    note = (
        f"Newest run: {today}, {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"{RATE:g} queries/s."
    )
    body = "\n".join((note, "", HEAD, *kept.values()))
    path.write_text(with_section(text, "faults", body))
    return path


def write_section(table: str, body: str, path: Path = PAGE) -> Path:
    """Replace the text between the markers of ``table``, and return the path. Raises LbdnsError."""
    path.write_text(with_section(_read(path), table, body))
    return path


def row(outcome: FaultOutcome) -> str:
    """Return the row of the table for an outcome."""
    held = {"held": "yes", "FAILED": "**no**", "skipped": "skipped"}[outcome.verdict]
    if outcome.problems:
        held += ": " + "; ".join(outcome.problems)
    before, most, after = outcome.memory_mb
    measured = outcome.verdict != "skipped"
    cells = (
        f"`{outcome.name}`", outcome.done, outcome.holds, held,
        f"{outcome.lost} / {outcome.lost_after_retry} of {outcome.sent}" if measured else "",
        str(outcome.wrong) if measured else "",
        f"{outcome.recover_s:.1f} s" if outcome.recover_s is not None else "",
        f"start {before:.0f}, peak {most:.0f}, end {after:.0f} MB" if measured else "",
    )  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def rows_by_name(body: str) -> dict[str, str]:
    """Return the rows of a table written by ``write``, keyed by the name of the fault."""
    return {line.split("`")[1]: line for line in body.splitlines() if line.startswith("| `")}


def section(text: str, table: str) -> str:
    """Return the text between the markers of ``table``. Raises LbdnsError if the markers are missing."""
    begin, end = _bounds(text, table)
    return text[begin:end]


def with_section(text: str, table: str, body: str) -> str:
    begin, end = _bounds(text, table)
    return f"{text[:begin]}\n{body}\n{text[end:]}"


def _bounds(text: str, table: str) -> tuple[int, int]:
    first, last = begin_marker(table), end_marker(table)
    if text.count(first) != 1 or text.count(last) != 1:
        raise LbdnsError(f"docs/reliability.md must contain exactly one line {first} and one line {last}")
    return text.index(first) + len(first), text.index(last)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise LbdnsError(f"{path}: {error.strerror}; run this command from a checkout") from None
