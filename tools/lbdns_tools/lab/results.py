"""results.csv and samples.csv: a line for each outcome as soon as it is there. An empty field is no result."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TextIO

from lbdns.errors import LbdnsError
from lbdns_tools.lab import addresses
from lbdns_tools.lab.case import Outcome
from lbdns_tools.lab.farm import Farm
from lbdns_tools.lab.report import golden
from lbdns_tools.load.output import WEBSTONE, columns
from lbdns_tools.load.tally import ERRORS

RESULTS: Final = "results.csv"
SAMPLES: Final = "samples.csv"
#: Columns of a row of the load generator, beside those of 1999
FIGURES: Final = (
    "p50_s", "p90_s", "p99_s", "max_s", "rate_per_s", "repetition", "seconds", "requests", "ok", "requests_per_s",
    *(f"errors_{error}" for error in ERRORS), "dns_mean_s", "keep_alive", "saturated",
)  # fmt: skip
#: ``case`` is the number of the line in results.csv, from 1; ``second`` that of the run at the sample's end
SAMPLE_COLUMNS: Final = ("time", "case", "second", "group", "cpu_percent", "memory_bytes")


def hosts_of(farms: Iterable[Farm]) -> tuple[str, ...]:
    """The web hosts of all of them, each once."""
    return tuple(dict.fromkeys(host.name for farm in farms for host in farm.hosts))


def groups_of(farms: Iterable[Farm]) -> tuple[str, ...]:
    """The control groups that are sampled: of each machine, and of each web host's agent if it is beside it."""
    found: list[str] = []
    for farm in farms:
        found += [machine.name for machine in addresses.machines(farm) if machine.kind != "hub"]  # it runs nothing
        found += [] if farm.agents_inside else [f"{host.name}-agent" for host in farm.hosts]
    return tuple(dict.fromkeys(found))


def line_of(outcome: Outcome, study: str, hosts: Sequence[str], groups: Sequence[str]) -> dict[str, Any]:
    """The columns of results.csv in their order: first those of 1999. None is no result, or doesn't apply.

    A host without a share in a run in which others have one got nothing of it. Where something stands in front of
    the hosts, clients can't tell who has served them, and nobody has a share.
    """
    case, figures = outcome.case, columns(outcome.row)
    shares, answers = outcome.row.figures.shares, outcome.answers
    nothing = 0.0 if any(host in shares for host in hosts) else None
    line = {
        "table": (golden.table_of(case.selection, case.workload) if study == golden.STUDY else None) or study,
        "selection": case.selection,
        "workload": case.workload,
        "clients": figures["clients"],
        **{name: figures[name] for name in WEBSTONE},
        "resolve": case.resolve,
        "p95_s": figures["p95_s"],
        **{name: figures[name] for name in FIGURES},
        "target": case.target,
        "farm": case.farm,
        "begun": None if outcome.row.begun is None else f"{outcome.row.begun:.3f}",  # Unix: it needs more digits
        **{f"share_{host}": shares.get(host, nothing) for host in hosts},
        **{f"answers_{host}": answers.get(host) for host in hosts},
        **{f"cpu_percent_{group}": outcome.cpu_percent(group) for group in groups},
        **{f"memory_{group}": outcome.memory_bytes(group) for group in groups},
    }
    return {**line, **{name: value for name, value in case.more.items() if name not in line}}


class Results:
    """Both files in a folder that exists, each line there for others to read as soon as it is written.

    Their columns are known from the farms, but for those of one study alone (``Case.more``): the first outcome that
    has one more makes results.csv be written anew with it. A context manager. Raises LbdnsError.
    """

    def __init__(self, folder: Path, study: str, farms: Iterable[Farm]) -> None:
        farms = tuple(farms)
        self._study, self._hosts, self._groups = study, hosts_of(farms), groups_of(farms)
        self._path = folder / RESULTS
        self._lines: list[dict[str, Any]] = []
        self._columns: list[str] = []
        self._file: TextIO | None = None
        self._samples = _opened(folder / SAMPLES)
        _write(self._samples, [SAMPLE_COLUMNS])

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._samples.close()
        if self._file:
            self._file.close()

    def add(self, outcome: Outcome) -> None:
        line = line_of(outcome, self._study, self._hosts, self._groups)
        self._lines.append(line)
        new = [name for name in line if name not in self._columns]
        if new or self._file is None:
            self._columns += new
            self._write_anew()
        else:
            _write(self._file, [self._fields(line)])
        _write(self._samples, sample_lines(outcome, len(self._lines)))

    def _write_anew(self) -> None:
        """Beside the old file and then in its place: at no moment is less there than was measured."""
        if self._file:
            self._file.close()
        beside = self._path.with_suffix(".new")
        self._file = _opened(beside)
        _write(self._file, [self._columns, *map(self._fields, self._lines)])
        os.replace(beside, self._path)

    def _fields(self, line: Mapping[str, Any]) -> list[Any]:
        return [_field(line.get(name)) for name in self._columns]


def sample_lines(outcome: Outcome, number: int) -> list[list[Any]]:
    """A line a second and group of an outcome."""
    begun = outcome.row.begun or 0.0
    return [
        [f"{sample.time:.3f}", number, f"{sample.time - begun:.3f}", group,
         _field(sample.cpu.get(group)), _field(sample.memory.get(group))]
        for sample in outcome.samples
        for group in sorted({*sample.cpu, *sample.memory})
    ]  # fmt: skip


def _opened(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise LbdnsError(f"{path}: can't be written: {error.strerror}") from None


def _write(file: TextIO, lines: Iterable[Iterable[Any]]) -> None:
    try:
        csv.writer(file, lineterminator="\n").writerows(lines)
        file.flush()
    except OSError as error:
        raise LbdnsError(f"{file.name}: can't be written: {error.strerror}") from None


def _field(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else value
