"""Reads an INI file with configparser, and keeps the line number of each section and key for error messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

T = TypeVar("T")
_SECTION: Final = re.compile(r"\[(?P<name>.+)\]")
_KEY: Final = re.compile(r"(?P<key>[^\s#;\[=][^=]*?)\s*=")


class Findings:
    """The errors in one file, in line order. Each error is one line of text: ``FILE:LINE: what``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, what: str) -> None:
        """Add an error in a line, or in the whole file if ``line`` is 0."""
        self._found.append((line, what))

    def lines(self) -> list[str]:
        """Return all errors."""
        ordered = sorted(self._found, key=lambda each: each[0])
        return [f"{self._path}:{line}: {what}" if line else f"{self._path}: {what}" for line, what in ordered]


@dataclass
class IniSection:
    """A section: the texts of its keys and their line numbers. ``findings`` receives all errors."""

    name: str
    line: int
    findings: Findings
    texts: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def wrong(self, key: str, what: object) -> None:
        """Record an error at the line of ``key``, or at the line of the section if it has no such key."""
        self.findings.add(self.lines.get(key, self.line), f"[{self.name}] {key}: {what}")

    def read(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """Return the value of ``key``, or ``default`` if it is absent or ``parse`` raises ValueError."""
        if key not in self.texts:
            return default
        try:
            return parse(self.texts[key])
        except ValueError as error:
            self.wrong(key, error)
            return default

    def check_keys(self, known: Iterable[str]) -> None:
        """Add an error for each key that is not in ``known``."""
        names = list(known)
        for key in self.texts:
            if key not in names:
                self.wrong(key, f"unknown key{suggestion(key, names, 'keys')}")


def suggestion(word: str, known: Iterable[str], what: str) -> str:
    """Return a hint that names the known word nearest to ``word``, or lists all known words."""
    import difflib  # not loaded unless needed

    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f". Perhaps you meant {close[0]!r}?" if close else f"; the {what} are: {', '.join(names)}"


def parse_ini(text: str, findings: Findings) -> list[IniSection]:
    """Return the sections of an INI file, and add syntax errors and duplicates to ``findings``."""
    import configparser  # not loaded unless there is a file

    parser = configparser.ConfigParser(
        interpolation=None,
        strict=False,
        delimiters=("=",),
        comment_prefixes=("#", ";"),
        empty_lines_in_values=False,
        default_section="",  # no section can have an empty name
    )
    try:
        parser.read_string(text)
    except configparser.MissingSectionHeaderError as error:
        findings.add(error.lineno, "a line before the first section; begin with a section such as [agent]")
        return []
    except configparser.ParsingError as error:
        for line, _ in error.errors:
            findings.add(line, "must be a section such as [agent], or KEY = VALUE")
    places = _find_lines(text, findings)
    sections = []
    for name in parser.sections():
        line, lines = places.get(name, (0, {}))
        texts = {key: value or "" for key, value in parser[name].items()}
        sections.append(IniSection(name, line, findings, texts, lines))
    return sections


def _find_lines(text: str, findings: Findings) -> dict[str, tuple[int, dict[str, int]]]:
    """Return the lines of each section and its keys, and add duplicates to ``findings``."""
    places: dict[str, tuple[int, dict[str, int]]] = {}
    keys: dict[str, int] = {}
    for number, line in _lines(text):
        if section := _SECTION.match(line):
            name, keys = section["name"], {}
            if name in places:
                findings.add(number, f"[{name}] appears a second time; the first is in line {places[name][0]}")
            else:
                places[name] = (number, keys)
        elif match := _KEY.match(line):
            key = match["key"].lower()
            if key in keys:
                findings.add(number, f"{key} appears a second time; the first is in line {keys[key]}")
            keys.setdefault(key, number)
    return places


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines that don't continue a value, with their numbers. Continuations are indented."""
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line[:1].strip())


def any_of(names: Iterable[str], texts: Any) -> list[str]:
    """Return the names in ``names`` that are keys of ``texts``."""
    return [name for name in names if name in texts]
