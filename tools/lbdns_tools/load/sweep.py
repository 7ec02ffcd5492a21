"""Points of a sweep as people write them: ``20``, ``20,40``, ``20..100/10``, a ramp's ``10..200``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final

MAX_POINTS: Final = 1000  # at 10 s each it takes three hours already
MAX_CLIENTS: Final = 100_000  # more than one address has ports for
MAX_RATE: Final = 1e6  # requests/s

_NUMBER: Final = r"\d+(?:\.\d+)?"
_ITEM: Final = re.compile(rf"({_NUMBER})(?:\.\.({_NUMBER})(?:/({_NUMBER}))?)?\Z", re.ASCII)
HOW: Final = "write 20, or 20,40, or 20..100/10 (from .. to / step)"


def parse_counts(text: str) -> tuple[int, ...]:
    """Whole numbers from 1: of clients, of connections. Raises ValueError."""
    points = _points(text)
    for point in points:
        if point.denominator != 1 or not 1 <= point <= MAX_CLIENTS:
            raise ValueError(f"{text!r}: {float(point):g} is not a whole number from 1 to {MAX_CLIENTS}")
    return tuple(int(point) for point in points)


def parse_rates(text: str) -> tuple[float, ...]:
    """Requests/s, above 0. Raises ValueError."""
    return tuple(_rate(text, point) for point in _points(text))


def parse_ramp(text: str) -> tuple[float, ...]:
    """``A..B``, or over several corners ``A..B..C``: requests/s, 0 only at some of them. Raises ValueError."""
    corners = text.strip().split("..")
    if len(corners) < 2 or not all(re.fullmatch(_NUMBER, corner, re.ASCII) for corner in corners):
        raise ValueError(f"{text!r} is no ramp; write 10..200, or 10..200..10 to go down again")
    rates = tuple(float(corner) for corner in corners)
    if not 0 < max(rates) <= MAX_RATE:
        raise ValueError(f"{text!r}: the highest rate is not above 0 and up to {MAX_RATE:g}")
    return rates


def _rate(text: str, point: Fraction) -> float:
    if not 0 < point <= MAX_RATE:
        raise ValueError(f"{text!r}: {float(point):g} is not a number above 0 and up to {MAX_RATE:g}")
    return float(point)


def _points(text: str) -> tuple[Fraction, ...]:
    """Exact, so that 0.1..1/0.1 are ten points; each once, in the order in which they were written."""
    found: dict[Fraction, None] = {}
    for item in text.split(","):
        for point in _item(text, item.strip()):
            found[point] = None
            if len(found) > MAX_POINTS:
                raise ValueError(f"{text!r} are more than {MAX_POINTS} points; take a larger step")
    return tuple(found)


def _item(text: str, item: str) -> Iterable[Fraction]:
    match = _ITEM.match(item)
    if not match:
        raise ValueError(
            f"{item!r} is neither a number nor a sweep; {HOW}" if item else f"{text!r}: a number is missing"
        )
    first = Fraction(match[1])
    if match[2] is None:
        return (first,)
    if match[3] is None:
        raise ValueError(f"{item!r} has no step; {HOW}")
    last, step = Fraction(match[2]), Fraction(match[3])
    if not step:
        raise ValueError(f"{item!r}: a step of 0 gets nowhere; {HOW}")
    if last < first:
        raise ValueError(f"{item!r} ends before it begins; {HOW}")
    return _steps(first, last, step)


def _steps(first: Fraction, last: Fraction, step: Fraction) -> Iterator[Fraction]:
    point = first
    while point <= last:
        yield point
        point += step
