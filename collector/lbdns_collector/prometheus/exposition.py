"""Writes metric families as Prometheus text in short slices, between which the event loop can do other work.

The writer in prometheus_client takes several times as long and never pauses. With 1000 members, it delays queries by up
to 0.1 s (``python -m lbdns_tools.bench scrape``).
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

from lbdns.process.duty_cycle import DutyCycle

SLICE: Final = 0.0005  # s of work, about as long as a batch of queries takes
SLICES: Final = DutyCycle(3.0)  # queries and reports get three quarters of the time
ROWS: Final = 50  # rows of a family per slice, about 0.1 ms of work

#: The values of a family's labels, and the value of the sample
FamilyRow = tuple[tuple[str, ...], float]
_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_SPECIAL: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}


class FamilySlice(Metric):
    """One slice of a metric family, with up to ROWS rows.

    Rows are converted to prometheus_client's samples only if ``samples`` is read, because writing the rows directly is
    faster.
    """

    def __init__(self, name: str, kind: str, text: str, labels: tuple[str, ...], rows: list[FamilyRow]) -> None:
        self.sample = f"{name}_total" if kind == "counter" else name
        self.labels, self.rows = labels, rows
        super().__init__(name, text, kind)

    @property
    def samples(self) -> list[Sample]:
        return [Sample(self.sample, dict(zip(self.labels, row, strict=True)), value) for row, value in self.rows]

    @samples.setter
    def samples(self, _: list[Sample]) -> None:
        """Ignore the empty list that prometheus_client sets."""


def families(name: str, kind: str, text: str, labels: tuple[str, ...], rows: Iterable[FamilyRow]) -> Iterator[Metric]:
    """Yield one gauge or counter family in slices of ROWS rows, or nothing if it has no rows.

    ``name`` must not end in ``_total``.
    """
    left = iter(rows)
    while some := list(itertools.islice(left, ROWS)):
        yield FamilySlice(name, kind, text, labels, some)


def family(name: str, kind: str, text: str, value: float) -> Metric:
    """Return a family with a single value and no labels."""
    return FamilySlice(name, kind, text, (), [((), value)])


def exposition_text(slices: Iterable[Metric]) -> Iterator[bytes]:
    """Yield the Prometheus text of metric families (exposition format 0.0.4), one piece per slice."""
    before = ""
    for part in slices:
        head = _head(part) if part.name != before else ""
        before = part.name
        yield "".join((head, *_lines(part))).encode()


async def in_slices(steps: Iterator[bytes]) -> list[bytes]:
    """Return a list of the values that ``steps`` yields.

    The function pauses after each slice, so that other tasks can run.
    """
    done = []
    began = time.perf_counter()
    for step in steps:
        done.append(step)
        if (took := time.perf_counter() - began) >= SLICE:
            await asyncio.sleep(SLICES.pause_after(took))
            began = time.perf_counter()
    return done


def _head(part: Metric) -> str:
    name = f"{part.name}_total" if part.type == "counter" else part.name
    text = part.documentation.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {part.type}\n"


def _lines(part: Metric) -> Iterator[str]:
    if isinstance(part, FamilySlice):
        return (f"{part.sample}{_labels(part.labels, values)} {_number(value)}\n" for values, value in part.rows)
    return (f"{s.name}{_labels(tuple(s.labels), tuple(s.labels.values()))} {_number(s.value)}\n" for s in part.samples)


@lru_cache(maxsize=16_384)  # the same pools and members recur in all families and scrapes
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = sorted(zip(names, values, strict=True))  # in the order that prometheus_client uses
    written = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in pairs)
    return f"{{{written}}}" if written else ""


def _number(value: float) -> str:
    text = repr(+value)  # + converts a bool to a number
    return _SPECIAL.get(text, text)
