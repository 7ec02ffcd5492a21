"""What a report is made of: sections with words, tables and pictures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: A cell: None is "no result"
Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Table:
    """``caption`` says units; numbers are shown with so many significant digits."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 3


@dataclass(frozen=True, slots=True)
class Picture:
    """``draw`` writes an SVG file to the path it is given. ``name`` is that of the file, without its ending."""

    name: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report, in the order: words, tables, pictures."""

    heading: str
    words: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
