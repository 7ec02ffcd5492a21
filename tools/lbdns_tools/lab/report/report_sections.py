"""The parts of a report: sections with paragraphs, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: A cell: None is "no result"
ReportCell = str | float | int | None


@dataclass(frozen=True, slots=True)
class SectionTable:
    """A table. ``caption`` gives the units; numbers are shown with ``digits`` significant digits."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[ReportCell]]
    digits: int = 3


@dataclass(frozen=True, slots=True)
class ReportPicture:
    """A picture. ``draw`` writes the SVG file to a path; ``name`` is the file's name without its extension."""

    name: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a report, shown in this order: paragraphs (``words``), tables, pictures."""

    heading: str
    words: Sequence[str] = ()
    tables: Sequence[SectionTable] = ()
    pictures: Sequence[ReportPicture] = ()
