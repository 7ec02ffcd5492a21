"""Reads a web server's access log, from which the tools take request rates and URLs."""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lbdns_shared.errors import ConfigError
from lbdns_tools.load.access_log_line import parse_line
from lbdns_tools.load.load_plan import OpenLoop, Spacing
from lbdns_tools.load.rate_trace import check_rates, scale
from lbdns_tools.load.request_mix import RequestMix, RequestOrder, parse_url

MAX_SPAN: Final = 366 * 86_400  # s; a log that spans more contains wrong times
_GZIP: Final = b"\x1f\x8b"
_SHOWN: Final = 80  # bytes of a bad line in a message


@dataclass(frozen=True, slots=True)
class AccessLog:
    """The GET requests of an access log."""

    name: str
    paths: tuple[str, ...]  # different ones, in the order of their first request
    sequence: array[int]  # for each request, in the log's order: the index of its path
    first: int  # Unix time of the earliest request
    counts: Counter[int]  # Unix time -> requests in this second

    @property
    def span_s(self) -> int:
        """The number of seconds from the earliest to the latest request, including both."""
        return max(self.counts) - self.first + 1

    def rates(self, steps: int) -> tuple[float, ...]:
        """Divide the log's time into ``steps`` parts, and return the requests per second in each.

        Each part consists of whole seconds, so there are at most ``span_s`` parts.
        """
        span = self.span_s
        steps = max(1, min(steps, span))
        totals = [0] * steps
        for second, count in self.counts.items():
            totals[(second - self.first) * steps // span] += count
        begins = [-(-step * span // steps) for step in range(steps + 1)]
        return tuple(total / (begins[at + 1] - begins[at]) for at, total in enumerate(totals))

    def load(self, seconds: float, span: tuple[float, float] | None, spacing: Spacing, requests: int) -> OpenLoop:
        """Return an open loop that replays the log in ``seconds`` seconds, or at its own speed if ``seconds`` is 0.

        The rate changes once per second of the run, or of the log if the log is shorter. If ``span`` is given, the
        rates are scaled to that range. Raises ConfigError if no rate is valid.
        """
        seconds = seconds or float(self.span_s)
        found = self.rates(round(seconds))
        rates = scale(found, *span) if span else found
        check_rates(self.name, rates)
        return OpenLoop(rates, seconds / len(rates), spacing, requests=requests)

    def mix(self, base_url: str, order: RequestOrder) -> RequestMix:
        """Return the log's URLs below ``base_url``, in the given order. Raises ValueError."""
        base = parse_url(base_url)
        if "?" in base.path:
            raise ValueError(f"{base_url!r}: the base URL must have no query string; write http://HOST[:PORT][/PATH]")
        folder, weights = base.path.rstrip("/"), Counter(self.sequence)
        targets = tuple(
            replace(base, path=folder + path, weight=float(weights[index])) for index, path in enumerate(self.paths)
        )
        return RequestMix(self.name, targets, order, self.sequence if order == "log" else array("L"))


def read_access_log(path: Path, report: Callable[[str], None]) -> AccessLog:
    """Read the access log ``path``, which gzip may have compressed.

    Only GET requests are returned. Empty lines are ignored. ``report`` is called with a note on each kind of line that
    is skipped. Raises ConfigError if the file cannot be read, if most
    lines are not valid, if there is no GET request, or if the requests span more than MAX_SPAN.
    """
    places: dict[str, int] = {}
    sequence, counts = array("L"), Counter[int]()
    skipped = _SkippedLines(path)
    lines = 0
    for number, line in numbered_lines(path):
        lines += 1
        try:
            request = parse_line(line)
        except ValueError as error:
            skipped.add_bad(number, line, error)
            continue
        if request.method != "GET":
            skipped.add_other(number)
            continue
        counts[request.time] += 1
        sequence.append(places.setdefault(request.path, len(places)))
    if 2 * skipped.bad > lines:
        raise ConfigError(f"{path}: {skipped.bad} of {lines} lines are not valid; {skipped.first_bad}")
    if not counts:
        raise ConfigError(f"{path}: the file contains no GET request; specify a log in the common or combined format")
    first, last = min(counts), max(counts)
    if last - first >= MAX_SPAN:
        raise ConfigError(
            f"{path}: the requests span {(last - first) // 86_400} days, more than the limit of {MAX_SPAN // 86_400}; "
            "remove the lines whose time is wrong"
        )
    for note in skipped.notes:
        report(note)
    return AccessLog(path.name, tuple(places), sequence, first, counts)


class _SkippedLines:
    """The numbers of lines that are not replayed, and where the first ones are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.bad = self._others = self._first_other = 0
        self.first_bad = ""

    def add_bad(self, number: int, line: bytes, why: ValueError) -> None:
        self.bad += 1
        if not self.first_bad:
            self.first_bad = f"the first is line {number}: {why}: {line[:_SHOWN].rstrip()!r}"

    def add_other(self, number: int) -> None:
        self._others += 1
        self._first_other = self._first_other or number

    @property
    def notes(self) -> tuple[str, ...]:
        notes = []
        if self.bad:
            notes.append(f"{self._path}: invalid lines skipped: {self.bad}; {self.first_bad}")
        if self._others:
            where = f"the first is line {self._first_other}"
            notes.append(f"{self._path}: requests other than GET skipped: {self._others}; {where}")
        return tuple(notes)


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the text of each line of a file, which gzip may have compressed. Empty lines are skipped.

    Raises ConfigError if the file cannot be read.
    """
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            yield number, line


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            is_compressed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            if is_compressed:
                with gzip.open(file) as text:
                    yield from text
            else:
                yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"{path}: not a valid gzip file: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the file: {error.strerror}") from None
