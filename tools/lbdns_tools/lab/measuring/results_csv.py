"""Writes each outcome of a study to results.csv and samples.csv while the study runs. Fields without a result are
empty."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.farm.lab_farm import HUB, LabFarm, machines
from lbdns_tools.lab.measuring import kernel_limits
from lbdns_tools.lab.measuring.case_measurement import MeasuredOutcome
from lbdns_tools.lab.report import webstone_1999
from lbdns_tools.load.request_tally import ERRORS, LOCAL_CAUSES
from lbdns_tools.load.result_rows import WEBSTONE, columns
from lbdns_tools.load.run_statistics import STATUSES

RESULTS: Final = "results.csv"
SAMPLES: Final = "samples.csv"
#: Columns from the load generator's row, in addition to those of 1999
FIGURES: Final = (
    "p50_s", "p90_s", "p99_s", "max_s", "rate_per_s", "repetition", "seconds", "requests", "ok", "requests_per_s",
    *(f"errors_{error}" for error in ERRORS), "dns_mean_s", "keep_alive", "saturated",
    # The figures of httperf, which the studies of 2012 and 2014 used
    "min_s", "p25_s", "p75_s", "rate_min_per_s", "rate_max_per_s", "rate_deviation_per_s", "response_mean_s",
    "response_p95_s", "transfer_mean_s", "transfer_p95_s", "connect_mean_s", "connect_p95_s", "tls_mean_s",
    "tls_p95_s", "failed_mean_s", "retried", *(f"status_{name}" for name in STATUSES),
    *(f"local_{cause}" for cause in LOCAL_CAUSES),
)  # fmt: skip
#: ``case`` is the line number in results.csv, from 1; ``second`` is the second of the run at which the sample ends
SAMPLE_COLUMNS: Final = ("time", "case", "second", "group", "cpu_percent", "memory_bytes")


def groups_of(farms: Iterable[LabFarm]) -> tuple[str, ...]:
    """Return the names of the sampled control groups.

    Each machine except the hub has a control group. Each agent has a separate control group, unless ``agents_inside``
    is set.
    """
    found: list[str] = []
    for farm in farms:
        found += [machine.name for machine in machines(farm) if machine.name != HUB]  # the hub runs no program
        found += [] if farm.agents_inside else [f"{host.name}-agent" for host in farm.hosts]
    return tuple(dict.fromkeys(found))


def line_of(outcome: MeasuredOutcome, study: str, hosts: Sequence[str], groups: Sequence[str]) -> dict[str, Any]:
    """Return a line of results.csv as a map from column to value. The columns of the 1999 results come first.

    None means that there is no result or that the column does not apply. If shares are known, the share of a host that
    served no requests is 0. If a balancer is used, shares are None, because clients cannot identify the serving host.
    """
    case, figures = outcome.case, columns(outcome.row)
    shares, answers = outcome.row.figures.shares, outcome.answers
    nothing = 0.0 if any(host in shares for host in hosts) else None
    table = webstone_1999.table_of(case.selection, case.workload) if study == webstone_1999.STUDY else None
    begun = outcome.row.begun
    line = {
        "table": table or study,
        "selection": case.selection,
        "workload": case.workload,
        "clients": figures["clients"],
        **{name: figures[name] for name in WEBSTONE},
        "resolve": case.resolve,
        "p95_s": figures["p95_s"],
        **{name: figures[name] for name in FIGURES},
        "target": case.target,
        "farm": case.farm,
        "begun": None if begun is None else f"{begun:.3f}",  # a Unix time needs more than nine digits
        **{f"share_{host}": shares.get(host, nothing) for host in hosts},
        **{f"answers_{host}": answers.get(host) for host in hosts},
        **{f"cpu_percent_{group}": outcome.cpu_percent(group) for group in groups},
        **{f"memory_{group}": outcome.memory_bytes(group) for group in groups},
        **{
            f"{figure}_{machine}": values[figure]
            for machine, values in outcome.kernel.items()
            for figure in kernel_limits.FIGURES
            if figure in values
        },
    }
    return {**line, **{name: value for name, value in case.more.items() if name not in line}}


class ResultFiles:
    """A context manager that writes results.csv and samples.csv in an existing directory, and flushes after each
    outcome.

    ``farms`` determines all columns except the study's additional columns (``MeasuredCase.more``). If an outcome
    contains a new column, results.csv is rewritten to include it. Raises LbdnsError.
    """

    def __init__(self, folder: Path, study: str, farms: Iterable[LabFarm]) -> None:
        farms = tuple(farms)
        self._study, self._groups = study, groups_of(farms)
        self._hosts = tuple(dict.fromkeys(host.name for farm in farms for host in farm.hosts))
        self._path = folder / RESULTS
        self._lines: list[dict[str, Any]] = []
        self._columns: list[str] = []
        self._file: TextIO | None = None
        self._samples = _opened(folder / SAMPLES)
        _write(self._samples, [SAMPLE_COLUMNS])

    def __enter__(self) -> ResultFiles:
        return self

    def __exit__(self, *error: object) -> None:
        self._samples.close()
        if self._file:
            self._file.close()

    def add(self, outcome: MeasuredOutcome) -> None:
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
        """Write a new file, and then replace results.csv with it, so that results.csv is always complete."""
        if self._file:
            self._file.close()
        beside = self._path.with_suffix(".new")
        self._file = _opened(beside)
        _write(self._file, [self._columns, *map(self._fields, self._lines)])
        os.replace(beside, self._path)

    def _fields(self, line: Mapping[str, Any]) -> list[Any]:
        return [_field(line.get(name)) for name in self._columns]


def sample_lines(outcome: MeasuredOutcome, number: int) -> list[list[Any]]:
    """Return an outcome's lines for samples.csv, one per second and control group."""
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
        raise LbdnsError(f"{path}: cannot write the file: {error.strerror}") from None


def _write(file: TextIO, lines: Iterable[Iterable[Any]]) -> None:
    try:
        csv.writer(file, lineterminator="\n").writerows(lines)
        file.flush()
    except OSError as error:
        raise LbdnsError(f"{file.name}: cannot write the file: {error.strerror}") from None


def _field(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else value
