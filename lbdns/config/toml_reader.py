"""Read TOML tables strictly: check types and ranges, report unknown keys, and give the line number of every error."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError

N = TypeVar("N", int, float)
S = TypeVar("S", bound=str)
T = TypeVar("T")
D = TypeVar("D")
_NEXT_KEY = re.compile(r"\s*[\w\"'.-]+\s*=")
_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?")


class TomlErrors:
    """The errors found so far in one TOML file, each as a line ``FILE:LINE: where: what``."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.source = TomlSource(path, text)
        self._found: list[tuple[int, str]] = []

    @property
    def found(self) -> list[str]:
        """Return all errors in line order."""
        return [text for _, text in sorted(self._found, key=lambda error: error[0])]

    def add(self, place: TomlPlace, what: str, word: str = "") -> None:
        """Add an error about the value at ``place``, or about ``word`` in a value that spans several lines."""
        self._found.append((self.source.line_of(place, word), self.source.error(place, what, word)))
        self.source.faulty.add((place.header, place.index))

    def raise_if_any(self) -> None:
        """Raise a ConfigError with all errors found, if there are any."""
        if self._found:
            raise ConfigError(*self.found)


class TomlSource:
    """The text of a TOML file, in which keys are located for error messages."""

    def __init__(self, path: Path, text: str = "") -> None:
        self.path = path
        self._lines = text.splitlines()
        self.faulty: set[tuple[str, int]] = set()  # header and index of each table that contains an error

    def error(self, place: TomlPlace, what: str, word: str = "") -> str:
        """Return the error message ``FILE:LINE: where: what``, or ``FILE: where: what`` if the line is unknown."""
        line = self.line_of(place, word)
        position = f"{self.path}:{line}" if line else str(self.path)
        return f"{position}: {place}: {what}"

    def line_of(self, place: TomlPlace, word: str = "") -> int:
        """Return the line number of the key or, if ``word`` is given, of the quoted ``word`` in the key's value.

        If the key is absent, return the number of the table's first line, or 0.
        """
        first = self._line_of(place)
        if not (first and word):
            return first
        quoted = re.compile(rf"""["']{re.escape(word)}["']""", re.IGNORECASE)
        for number, line in enumerate(self._lines[first - 1 :], first):
            if number > first and (_NEXT_KEY.match(line) or line.lstrip().startswith("[[")):
                break
            if quoted.search(line):
                return number
        return first

    def _line_of(self, place: TomlPlace) -> int:
        """Return the line number of a key, or 0 if it is absent.

        The file's text is searched, because tomllib does not report line numbers.
        """
        key = place.inside.partition(".")[0] or place.key
        below = f"{place.header}.{place.inside}"  # the header of the inner table, if it is not written inline
        inside = not place.header  # whether the current line belongs to the table
        start, seen = 0, -1
        for number, line in enumerate(self._lines, 1):
            if match := _HEADER.match(line):
                name = match[1].replace('"', "").replace(" ", "")
                inside = False
                if start and place.inside and name == below:
                    start, inside, key = number, True, place.key
                    continue
                if start and not name.startswith(f"{place.header}."):
                    break
                if not place.header and name.partition(".")[0] == key:
                    return number  # a top-level key that is written as a table
                if name == place.header:
                    seen += 1
                    if seen == place.index:
                        start, inside = number, True
            elif inside and key and re.match(rf'\s*"?{re.escape(key)}"?\s*[.=]', line):
                return number
        return start


class TomlPlace:
    """The location of ``key`` in a TOML file. ``index`` is the number of the table among all tables called ``header``.

    ``inside`` is the path of the inline table that contains the key. Error messages refer to the table as ``label``.
    """

    def __init__(self, header: str = "", index: int = 0, key: str = "", label: str = "", inside: str = "") -> None:
        self.header, self.index, self.key, self.label, self.inside = header, index, key, label, inside

    def __str__(self) -> str:
        table = f"[{self.label or self.header}]" if self.header else ""
        key = ".".join(part for part in (self.inside, self.key) if part)
        return " ".join(part for part in (table, key) if part) or "file"


class TomlTable:
    """A TOML table that is read key by key.

    Callers read every known key, and then call ``end`` to report unknown keys.
    """

    def __init__(self, values: Mapping[str, Any], place: TomlPlace, findings: TomlErrors) -> None:
        self.values, self.place, self.findings = values, place, findings
        self._asked: list[str] = []

    @property
    def folder(self) -> Path:
        """The directory of the file. Relative paths in the file are relative to the file's directory."""
        return self.findings.path.resolve().parent

    def wrong(self, key: str, what: str, word: str = "") -> None:
        """Report an error about the value of ``key``, or about the quoted ``word`` in it."""
        place = self.place
        self.findings.add(TomlPlace(place.header, place.index, key, place.label, place.inside), what, word)

    def get(self, key: str, kind: type[T], default: T, expected: str) -> T:
        """Return the value of ``key``.

        If the type of the value is wrong, report the ``expected`` type and return the default.
        """
        self._asked.append(key)
        value = self.values.get(key, default)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is kind and not (isinstance(value, float) and not math.isfinite(value)):
            return value
        if value is not default:
            self.wrong(key, f"must be {expected}, not {value!r}")
        return default

    def raw(self, key: str) -> Any:
        """Return the value of ``key``, which may be of any type, or None if the key is absent."""
        self._asked.append(key)
        return self.values.get(key)

    def string(self, key: str, default: str = "") -> str:
        return self.get(key, str, default, "a string")

    def parsed(self, key: str, default: str, parse: Callable[[str], T], wrong: D) -> T | D:
        """Return the string at ``key`` converted by ``parse``; if the key is absent, convert ``default`` instead.

        If ``parse`` raises ValueError, report the error and return ``wrong``.
        """
        try:
            return parse(self.string(key, default))
        except ValueError as error:
            self.wrong(key, str(error))
            return wrong

    def required(self, key: str) -> str:
        value = self.string(key)
        if not value and not isinstance(self.values.get(key), (int, float, list, dict)):
            self.wrong(key, "is missing")
        return value

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        return self._in_range(key, int, default, least, most, f"a whole number from {least} to {most}")

    def number(self, key: str, default: float, least: float, most: float) -> float:
        return self._in_range(key, float, default, least, most, f"a number from {least:g} to {most:g}")

    def _in_range(self, key: str, kind: type[N], default: N, least: float, most: float, expected: str) -> N:
        value = self.get(key, kind, default, expected)
        if not least <= value <= most:
            self.wrong(key, f"must be {expected}, not {value:.15g}")
            return default
        return value

    def flag(self, key: str, default: bool) -> bool:
        return self.get(key, bool, default, "true or false")

    def one_of(self, key: str, default: S, known: Iterable[S]) -> S:
        value, names = self.string(key, default), list(known)
        if value not in names:
            self.wrong(key, f"unknown value {value!r}{nearest(value, names)}")
            return default
        return names[names.index(value)]

    def strings(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of strings. A single string becomes a list with one element."""
        self._asked.append(key)
        value = self.values.get(key, list(default))
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(key, f"must be a list of strings, not {value!r}")
            return default
        return tuple(value)

    def each(self, key: str, default: tuple[T, ...], read: Callable[[str], T]) -> tuple[T, ...]:
        """Convert each string in a list with ``read``.

        If ``read`` raises ValueError, report the error and return the default.
        """
        before = len(self.findings.found)
        found = []
        for item in self.strings(key):
            try:
                found.append(read(item))
            except ValueError as error:
                self.wrong(key, str(error), item)
        good = key in self.values and len(self.findings.found) == before
        return tuple(found) if good else default

    def table(self, key: str, place: TomlPlace | None = None) -> TomlTable | None:
        """Return the table at ``key``, or None if the key is absent."""
        self._asked.append(key)
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.wrong(key, "must be a table")
            return None
        return TomlTable(value, place or self._below(key), self.findings)

    def section(self, name: str) -> TomlTable:
        """Return the table ``[name]``, or an empty table if the file does not contain it."""
        return self.table(name, TomlPlace(name)) or TomlTable({}, TomlPlace(name), self.findings)

    def _below(self, key: str) -> TomlPlace:
        """Return the location of the inline table at ``key``."""
        place = self.place
        return TomlPlace(place.header, place.index, "", place.label, f"{place.inside}.{key}".lstrip("."))

    def tables(self, key: str) -> list[TomlTable]:
        """Return the tables of an array of tables, ``[[key]]``."""
        self._asked.append(key)
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.wrong(key, f"must be an array of tables, written as [[{key}]]")
            return []
        return [
            TomlTable(item, TomlPlace(key, i, label=f"{key} {item.get('name', i + 1)}"), self.findings)
            for i, item in enumerate(value)
        ]

    def end(self) -> None:
        """Report an error for each key that no caller has read. Callers read every known key, so a key that was not
        read is unknown."""
        for key in self.values:
            if key not in self._asked:
                self.wrong(key, f"unknown key{nearest(key, self._asked)}")


def read_toml(path: Path) -> TomlTable:
    """Return the root table of a TOML file. Raises ConfigError if the file cannot be read or is not valid TOML."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: the file must be UTF-8 text") from None
    try:
        return TomlTable(tomllib.loads(text), TomlPlace(), TomlErrors(path, text))
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        line = re.search(r" \(at line (\d+), column (\d+)\)", message)
        position = f"{path}:{line[1]}" if line else str(path)
        what = message.replace(line[0], f" (column {line[2]})") if line else message
        raise ConfigError(f"{position}: TOML: {what}") from None
