"""Writes the report of a study to index.html, which contains sections with tables and charts, and the manifest."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.measuring import results_csv
from lbdns_tools.lab.report.report_css import CSS

#: A cell of a table: None is "no result"
ReportCell = str | float | int | None

PAGE: Final = "index.html"
MANIFEST: Final = "manifest.json"
PICTURES: Final = "pictures"
#: Files next to the page, with their contents; a file exists only if the study got far enough
FILES: Final = (
    (results_csv.RESULTS, "all measurements, one per line"),
    (results_csv.SAMPLES, "CPU and memory use of every machine, sampled once a second"),
    (MANIFEST, "versions, machine, farms and settings"),
)
MADE_WITH: Final = "How it was measured"
NO_RESULT: Final = '<span class="none" title="no result">&ndash;</span>'
NOT_SET: Final = '<span class="none" title="not set">&ndash;</span>'
_MOMENT: Final = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\+00:00$")


@dataclass(frozen=True, slots=True)
class SectionTable:
    """A table. ``caption`` specifies the units. Numbers are displayed with ``digits`` significant digits."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[ReportCell]]
    digits: int = 3


@dataclass(frozen=True, slots=True)
class ReportPicture:
    """A chart. ``draw`` writes the SVG file to a path. ``name`` is the file name without the extension."""

    name: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section of a report: paragraphs (``words``), followed by tables and then charts."""

    heading: str
    words: Sequence[str] = ()
    tables: Sequence[SectionTable] = ()
    pictures: Sequence[ReportPicture] = ()


def write_report(folder: Path, title: str, sections: Sequence[ReportSection], manifest: Mapping[str, Any]) -> Path:
    """Write a report's page and charts, and return the page's path.

    If a chart cannot be drawn, the page contains an error message instead. Raises LbdnsError.
    """
    try:
        (folder / PICTURES).mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, default=str) + "\n", "utf-8")
        drawn = _draw(folder, [picture for section in sections for picture in section.pictures])
        files = [(name, what) for name, what in FILES if (folder / name).exists()]
        page = folder / PAGE
        page.write_text(page_of(title, sections, manifest, drawn, files), "utf-8")
    except OSError as error:
        raise LbdnsError(f"cannot write the report: {error.filename or folder}: {error.strerror}") from None
    return page


def _draw(folder: Path, pictures: Iterable[ReportPicture]) -> dict[int, str]:
    """Draw all charts. Return each chart's relative path, keyed by the chart's id().

    If a chart cannot be drawn, its value is "!" followed by an error message.
    """
    drawn: dict[int, str] = {}
    taken: set[str] = set()
    for picture in pictures:
        stem = re.sub(r"[^a-z0-9_-]+", "-", picture.name.lower()).strip("-") or "picture"
        name, number = stem, 1
        while name in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name)
        path = f"{PICTURES}/{name}.svg"
        try:
            picture.draw(folder / path)
        except LbdnsError as error:
            path = f"!{error}"
        drawn[id(picture)] = path
    return drawn


def page_of(
    title: str,
    sections: Sequence[ReportSection],
    manifest: Mapping[str, Any],
    drawn: Mapping[int, str],
    files: Sequence[tuple[str, str]],
) -> str:
    """Return the HTML of the page. ``drawn`` is the result of ``_draw``."""
    headings = [*(section.heading for section in sections), MADE_WITH]
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{CSS}</style></head>",
        "<body>",
        f"<header><h1>{escape(title)}</h1>",
        f"<p>{escape(_when(manifest))}</p></header>",
        "<nav><div><h2>Contents</h2><ol>",
        *(f'<li><a href="#part-{n}">{escape(heading)}</a></li>' for n, heading in enumerate(headings, 1)),
        "</ol></div></nav>",
        "<main>",
        *_troubles(manifest),
    ]
    for number, section in enumerate(sections, 1):
        lines += [f'<section id="part-{number}"><h2>{escape(section.heading)}</h2>', *_section(section, drawn)]
        lines.append("</section>")
    lines += [f'<section id="part-{len(headings)}"><h2>{MADE_WITH}</h2>', "<ul>"]
    lines += [f'<li><a href="{escape(name)}">{escape(name)}</a>: {escape(what)}</li>' for name, what in files]
    lines += ["</ul>", *_facts(manifest), "</section>", "</main>", "</body>", "</html>"]
    return "\n".join(lines) + "\n"


def _when(manifest: Mapping[str, Any]) -> str:
    machine = manifest.get("machine", {})
    parts = [
        _text(manifest.get("began")) or "",
        str(machine.get("processor", "")),
        f"{machine['processors']} processors" if "processors" in machine else "",
        str(machine.get("kernel", "")),
    ]
    return " · ".join(part for part in parts if part)


def _troubles(manifest: Mapping[str, Any]) -> Iterator[str]:
    failed = manifest.get("failed") or ()
    if not failed and not manifest.get("interrupted"):
        return
    yield '<div class="trouble">'
    if manifest.get("interrupted"):
        yield "<p>The study was interrupted. This report contains only measurements from before the interruption.</p>"
    if failed:
        yield "<p>Some measurements failed:</p><ul>"
        yield from (f"<li>{escape(str(what))}</li>" for what in failed)
        yield "</ul>"
    yield "</div>"


def _section(section: ReportSection, drawn: Mapping[int, str]) -> Iterator[str]:
    yield from (f"<p>{escape(words)}</p>" for words in section.words)
    for table in section.tables:
        yield from _table(table)
    for picture in section.pictures:
        yield from _picture(picture, drawn[id(picture)])


def _picture(picture: ReportPicture, path: str) -> Iterator[str]:
    caption = escape(picture.caption)
    if path.startswith("!"):
        yield f'<div class="trouble"><p>{caption} could not be drawn: {escape(path[1:])}</p></div>'
        return
    href = escape(path)
    yield f'<figure><div class="wide"><a href="{href}"><img src="{href}" alt="{caption}"></a></div>'
    yield f"<figcaption>{caption}</figcaption></figure>"


def _table(table: SectionTable) -> Iterator[str]:
    caption = escape(table.caption)
    numeric = [all(not isinstance(row[n], str) for row in table.rows) for n in range(len(table.columns))]
    kinds = [' class="n"' if is_number and table.rows else "" for is_number in numeric]
    # No <caption>: it would be as wide as the table, and would scroll off a phone's screen
    yield f'<p class="caption">{caption}</p>'
    yield f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0"><table>'
    names = [escape(column.replace(", ", ",\u00a0")) for column in table.columns]  # no line break before a unit
    heads = (f'<th scope="col"{kind}>{name}</th>' for name, kind in zip(names, kinds, strict=True))
    yield f"<thead><tr>{''.join(heads)}</tr></thead><tbody>"
    has_groups = len({row[0] for row in table.rows}) < len(table.rows)
    for before, row in zip([None, *table.rows], table.rows, strict=False):
        cells = [shown(cell, table.digits) for cell in row]
        first = f'<th scope="row"{kinds[0]}>{cells[0]}</th>'
        others = (f"<td{kind}>{cell}</td>" for cell, kind in zip(cells[1:], kinds[1:], strict=True))
        begins = ' class="next"' if has_groups and before and before[0] != row[0] else ""
        yield f"<tr{begins}>{first}{''.join(others)}</tr>"
    yield "</tbody></table></div>"


def shown(cell: ReportCell, digits: int = 3) -> str:
    """Return a cell as HTML. Numbers have ``digits`` significant digits, or more if the integer part is longer."""
    if isinstance(cell, str):
        return escape(cell)
    if cell is None or not math.isfinite(cell):
        return NO_RESULT
    if isinstance(cell, int):
        return f"{cell:,}".replace("-", "&minus;")
    rounded = float(f"{cell:.{digits - 1}e}")  # so that 9.996 gets as many digits as 10.0
    places = digits - 1 - math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{cell:,.{max(0, places)}f}".replace("-", "&minus;")


def _facts(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the manifest as HTML. Single values come first, followed by each group of values under a heading."""
    # Failures are shown at the top of the page
    plain = {name: value for name, value in manifest.items() if not _is_group(value) and name != "failed"}
    yield from _pairs(plain)
    for name, value in manifest.items():
        if isinstance(value, Mapping) and value:
            yield f"<h3>{escape(_words(name).capitalize())}</h3>"
            if all(isinstance(part, Mapping) for part in value.values()):
                for inner, part in value.items():
                    yield from _group(part, inner)
            else:
                yield from _group(value)


def _group(value: Mapping[str, Any], caption: str = "") -> Iterator[str]:
    yield from _pairs({name: part for name, part in value.items() if not _is_group(part)}, caption)
    for name, part in value.items():
        if isinstance(part, Sequence) and _is_group(part):
            columns = list(dict.fromkeys(key for line in part for key in line))
            rows = [[_value(line.get(column)) for column in columns] for line in part]
            yield from _table(SectionTable(f"{caption}: {_words(name)}" if caption else _words(name), columns, rows))


def _is_group(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(part, Mapping) for part in value)


def _pairs(pairs: Mapping[str, Any], caption: str = "") -> Iterator[str]:
    if not pairs:
        return
    if caption:
        yield f'<p class="caption">{escape(caption)}</p>'
    yield '<div class="scroll"><table><tbody>'
    for name, value in pairs.items():
        text = _text(value)
        cell = NOT_SET if text is None else escape(text)
        yield f'<tr><th scope="row">{escape(_words(name))}</th><td>{cell}</td></tr>'
    yield "</tbody></table></div>"


def _text(value: Any) -> str | None:
    """Return a single value in the manifest as text, or None if it is empty."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(part) for part in value) or None
    if isinstance(value, str):
        return _MOMENT.sub(r"\1 \2 UTC", value) or None
    return f"{value:,}" if isinstance(value, int) else None if value is None else str(value)


def _value(value: Any) -> ReportCell:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _text(value)


def _words(name: str) -> str:
    return re.sub(r"_(s|bytes)$", r", \1", name).replace("_", " ")
