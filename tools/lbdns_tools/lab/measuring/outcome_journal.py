"""Records the outcomes of each finished step in journal.jsonl, so that an interrupted study can be resumed.

The first line identifies the study, its settings and its farms. Each further line contains one finished step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TextIO

from lbdns.process.atomic_file import replace_file
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.measuring.case_measurement import MeasuredCase, MeasuredOutcome
from lbdns_tools.lab.measuring.cgroup_sampler import MachineSample
from lbdns_tools.lab.study_plan import StepKey, StudySettings
from lbdns_tools.load.request_tally import RequestTally
from lbdns_tools.load.result_rows import LoadPoint, ResultRow
from lbdns_tools.load.run_statistics import RunStatistics

JOURNAL: Final = "journal.jsonl"


class OutcomeJournal:
    """A context manager that appends finished steps to a study's journal. ``done`` contains the steps that the journal
    already contained when it was opened."""

    def __init__(
        self, path: Path, header: Mapping[str, Any], done: Mapping[StepKey, Sequence[MeasuredOutcome]]
    ) -> None:
        self.done = dict(done)
        self._path = path
        lines = [dict(header), *(_line(key, outcomes) for key, outcomes in done.items())]
        try:
            replace_file(path, "".join(f"{json.dumps(line)}\n" for line in lines), sync=True)
            self._file: TextIO = path.open("a", encoding="utf-8")
        except OSError as error:
            raise LbdnsError(f"{path}: cannot write the file: {error.strerror}") from None

    def __enter__(self) -> OutcomeJournal:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, key: StepKey, outcomes: Sequence[MeasuredOutcome]) -> None:
        """Append a finished step. The step survives a crash of the machine. Raises LbdnsError."""
        try:
            self._file.write(f"{json.dumps(_line(key, outcomes))}\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise LbdnsError(f"{self._path}: cannot write the file: {error.strerror}") from None


def open_journal(
    folder: Path, study: str, settings: StudySettings, farms: Mapping[str, LabFarm], resume: bool = False
) -> OutcomeJournal:
    """Open the journal of a study in ``folder``. With ``resume``, keep the steps of an existing journal.

    Raises ConfigError if the existing journal belongs to another study or other settings, and LbdnsError.
    """
    header = {
        "study": study,
        "settings": asdict(settings),
        "farms": {name: asdict(farm) for name, farm in farms.items()},
    }
    header = json.loads(json.dumps(header))  # as it is read again: tuples become lists
    path = folder / JOURNAL
    done: dict[StepKey, list[MeasuredOutcome]] = {}
    if resume and path.exists():
        found, *steps = _read(path)
        _compare(found, header, path)
        # A step that a resumed study had to repeat occurs more than once; its last line applies
        done = {(line["step"][0], line["step"][1]): [_outcome(each) for each in line["outcomes"]] for line in steps}
    return OutcomeJournal(path, header, done)


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a journal, without a last line that was not written completely. Raises LbdnsError."""
    try:
        whole = path.read_text("utf-8").split("\n")[:-1]
        lines: list[dict[str, Any]] = [json.loads(line) for line in whole]
        if not lines or "study" not in lines[0]:
            raise ValueError("the first line does not identify a study")
    except OSError as error:
        raise LbdnsError(f"{path}: cannot read the file: {error.strerror}") from None
    except ValueError as error:
        raise LbdnsError(f"{path}: not the journal of a study ({error}); specify a new directory with --out") from None
    return lines


def _compare(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """Raise a ConfigError that lists the differences between the journal's study and the requested one."""
    wrong = []
    if found["study"] != wanted["study"]:
        wrong.append(f"it contains the study {found['study']!r}, not {wanted['study']!r}")
    for name, value in wanted["settings"].items():
        before = found.get("settings", {}).get(name)
        if before != value:
            wrong.append(f"the study began with {name} = {json.dumps(before)}, not {json.dumps(value)}")
    if not wrong and found.get("farms") != wanted["farms"]:
        wrong.append("the study began with another farm")
    if wrong:
        raise ConfigError(*(f"--resume: {path}: {what}; use the same options, or a new --out" for what in wrong))


def _line(key: StepKey, outcomes: Sequence[MeasuredOutcome]) -> dict[str, Any]:
    return {"step": list(key), "outcomes": [_plain(outcome) for outcome in outcomes]}


def _plain(outcome: MeasuredOutcome) -> dict[str, Any]:
    """Return an outcome as plain data that JSON can represent."""
    case, row = outcome.case, outcome.row
    return {
        "case": {**asdict(case), "more": dict(case.more)},
        "point": asdict(row.point),
        "repetition": row.repetition,
        "begun": row.begun,
        "figures": asdict(row.figures),
        "tally": row.tally.state(),
        "samples": [[sample.time, dict(sample.cpu), dict(sample.memory)] for sample in outcome.samples],
        "answers": dict(outcome.answers),
        "kernel": {machine: dict(figures) for machine, figures in outcome.kernel.items()},
    }


def _outcome(plain: Mapping[str, Any]) -> MeasuredOutcome:
    """Return the outcome that ``_plain`` has converted."""
    row = ResultRow(
        LoadPoint(**plain["point"]),
        plain["repetition"],
        RunStatistics(**plain["figures"]),
        RequestTally.from_state(plain["tally"]),
        plain["begun"],
    )
    samples = tuple(MachineSample(time, cpu, memory) for time, cpu, memory in plain["samples"])
    return MeasuredOutcome(MeasuredCase(**plain["case"]), row, samples, plain["answers"], plain.get("kernel", {}))
