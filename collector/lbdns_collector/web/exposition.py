"""Metric families as Prometheus text, in slices between which the event loop has its turn.

prometheus_client's own way from family to text takes several times as long, and all of it at once: with 1000 members
0.1 s, in which no query would be answered (``python -m lbdns_tools.bench.scrape``).
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

SLICE: Final = 0.0005  # s of work, as long as a batch of queries takes, ...
REST: Final = 3.0  # ... and so many times as long for others before the next one
ROWS: Final = 50  # samples of a family that are made at a time, about 0.1 ms

#: Values of a family's labels, and the value of the sample
Row = tuple[tuple[str, ...], float]
_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_SPECIAL: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}


class Piece(Metric):
    """Some rows of a family. To make samples of them takes longer than to write them, so that is left to whoever wants
    prometheus_client's form."""

    def __init__(self, name: str, kind: str, text: str, labels: tuple[str, ...], rows: list[Row]) -> None:
        self.sample = f"{name}_total" if kind == "counter" else name
        self.labels, self.rows = labels, rows
        super().__init__(name, text, kind)

    @property
    def samples(self) -> list[Sample]:
        return [Sample(self.sample, dict(zip(self.labels, row, strict=True)), value) for row, value in self.rows]

    @samples.setter
    def samples(self, _: list[Sample]) -> None:
        """prometheus_client begins with none."""


def families(name: str, kind: str, text: str, labels: tuple[str, ...], rows: Iterable[Row]) -> Iterator[Metric]:
    """One family of a gauge or a counter (``name`` is without the ``_total``), piece by piece; a family without rows
    is nothing."""
    left = iter(rows)
    while some := list(itertools.islice(left, ROWS)):
        yield Piece(name, kind, text, labels, some)


def family(name: str, kind: str, text: str, value: float) -> Metric:
    """A family of one value without labels."""
    return Piece(name, kind, text, (), [((), value)])


def written(pieces: Iterable[Metric]) -> Iterator[bytes]:
    """The text format, version 0.0.4, piece by piece. Pieces of one family have to follow each other."""
    before = ""
    for piece in pieces:
        head = _head(piece) if piece.name != before else ""
        before = piece.name
        yield "".join((head, *_lines(piece))).encode()


async def in_slices(steps: Iterator[bytes]) -> list[bytes]:
    """What all of them yield."""
    done = []
    began = time.perf_counter()
    for step in steps:
        done.append(step)
        if (took := time.perf_counter() - began) >= SLICE:
            await asyncio.sleep(took * REST)
            began = time.perf_counter()
    return done


def _head(piece: Metric) -> str:
    name = f"{piece.name}_total" if piece.type == "counter" else piece.name
    text = piece.documentation.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {piece.type}\n"


def _lines(piece: Metric) -> Iterator[str]:
    if isinstance(piece, Piece):
        return (f"{piece.sample}{_labels(piece.labels, values)} {_number(value)}\n" for values, value in piece.rows)
    return (f"{s.name}{_labels(tuple(s.labels), tuple(s.labels.values()))} {_number(s.value)}\n" for s in piece.samples)


@lru_cache(maxsize=16_384)  # pools and members come in one family after the other, and again with the next scrape
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = sorted(zip(names, values, strict=True))  # as prometheus_client has them
    written = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in pairs)
    return f"{{{written}}}" if written else ""


def _number(value: float) -> str:
    text = repr(+value)  # a truth becomes a number
    return _SPECIAL.get(text, text)
