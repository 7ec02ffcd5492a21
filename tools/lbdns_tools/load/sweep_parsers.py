"""Parse the points of a sweep, such as ``20``, ``20,40`` or ``20..100/10``, and ramps such as ``10..200``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final

MAX_POINTS: Final = 1000  # almost three hours at 10 s each
MAX_CLIENTS: Final = 100_000  # more than the ports of one address
MAX_RATE: Final = 1e6  # requests/s

_NUMBER: Final = r"\d+(?:\.\d+)?"
_ITEM: Final = re.compile(rf"({_NUMBER})(?:\.\.({_NUMBER})(?:/({_NUMBER}))?)?\Z", re.ASCII)
HOW: Final = "write 20, 20,40 or 20..100/10 (first..last/step)"


def parse_counts(text: str) -> tuple[int, ...]:
    """Parse whole numbers from 1, of clients or connections. Raises ValueError."""
    points = _points(text)
    for point in points:
        if point.denominator != 1 or not 1 <= point <= MAX_CLIENTS:
            raise ValueError(f"{text!r}: {float(point):g} is not a whole number from 1 to {MAX_CLIENTS}")
    return tuple(int(point) for point in points)


def parse_rates(text: str) -> tuple[float, ...]:
    """Parse rates above 0, in requests/s. Raises ValueError."""
    return tuple(_rate(text, point) for point in _points(text))


def parse_ramp(text: str) -> tuple[float, ...]:
    """Parse ``A..B`` or ``A..B..C`` in requests/s; not all of them may be 0. Raises ValueError."""
    corners = text.strip().split("..")
    if len(corners) < 2 or not all(re.fullmatch(_NUMBER, corner, re.ASCII) for corner in corners):
        raise ValueError(f"{text!r} is not a valid ramp; write 10..200, or 10..200..10 to go down again")
    rates = tuple(float(corner) for corner in corners)
    if not 0 < max(rates) <= MAX_RATE:
        raise ValueError(f"{text!r}: the highest rate must be above 0 and up to {MAX_RATE:g}")
    return rates


def _rate(text: str, point: Fraction) -> float:
    if not 0 < point <= MAX_RATE:
        raise ValueError(f"{text!r}: {float(point):g} is not a number above 0 and up to {MAX_RATE:g}")
    return float(point)


def _points(text: str) -> tuple[Fraction, ...]:
    """Return exact points, so that 0.1..1/0.1 are ten; each once, in the order in which they are written."""
    found: dict[Fraction, None] = {}
    for item in text.split(","):
        for point in _item(text, item.strip()):
            found[point] = None
            if len(found) > MAX_POINTS:
                raise ValueError(f"{text!r} has more than {MAX_POINTS} points; use a larger step")
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
        raise ValueError(f"{item!r}: the step must be more than 0; {HOW}")
    if last < first:
        raise ValueError(f"{item!r}: the last value must not be below the first; {HOW}")
    return _steps(first, last, step)


def _steps(first: Fraction, last: Fraction, step: Fraction) -> Iterator[Fraction]:
    point = first
    while point <= last:
        yield point
        point += step
