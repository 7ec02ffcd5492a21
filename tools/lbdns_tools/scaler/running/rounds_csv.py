"""Writes a CSV row for each round as soon as the round is over, and reads past rounds after a restart."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lbdns_agent.recorder.csv_file import CsvFile
from lbdns_agent.recorder.rotation import Rotation
from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.policies.scaling_policy import Demand, ScalingRound

#: The columns of the reactive scaler of 2014, then those of lbdns-scaler
COLUMNS: Final = (
    "diffpt", "haactive", "active", "epoch_s", "accumulated_sessions", "date", "sessions_per_s", "needed_servers",
    "time", "requests_per_s", "cpu_percent", "capacity", "in_service", "on_the_way", "draining", "stopped", "failed",
    "recommended", "wanted", "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoundRow:
    """What one round measured and decided. Counts are numbers of servers; ``period`` is in seconds."""

    demand: Demand
    period: float  # since the previous round
    since_start: float  # seconds since the scaler started
    requests: float  # since the scaler started
    capacity: float
    running: int  # servers that run
    in_service: int
    on_the_way: int
    draining: int
    stopped: int
    failed: int
    recommended: int
    wanted: int
    reason: str

    def cells(self) -> tuple[object, ...]:
        """Return the values in the order of COLUMNS."""
        demand = self.demand
        return (
            round(demand.requests_per_s * self.period), self.in_service, self.running, int(self.since_start),
            round(self.requests), datetime.fromtimestamp(demand.time, UTC).isoformat(timespec="microseconds"),
            math.ceil(demand.requests_per_s), self.recommended, f"{demand.time:.3f}", f"{demand.requests_per_s:.3f}",
            "" if demand.cpu_percent is None else f"{demand.cpu_percent:.1f}", f"{self.capacity:.3f}", self.in_service,
            self.on_the_way, self.draining, self.stopped, self.failed, self.recommended, self.wanted, self.reason,
        )  # fmt: skip


class RoundsFile:
    """Appends rows to a CSV file. Each row is completely written before the next round begins."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        """Raises LbdnsError if the file has other columns, cannot be written or is in use."""
        self._path, self._file = path, None if read_only else CsvFile(path, Rotation())
        if not self._file:
            return
        try:
            self._file.open()
            with path.open(newline="", encoding="utf-8", errors="replace") as file:
                header = file.readline().strip()
        except OSError as error:
            raise LbdnsError(f"{path}: cannot write the file: {error.strerror}") from None
        if header and header != _HEADER:
            raise LbdnsError(f"{path}:1: the file has other columns; move it away, or choose another file")

    def append(self, row: RoundRow) -> None:
        """Append a row, unless the file is read-only. If it raises OSError, the file still has the same rows as
        before."""
        if self._file:
            self._file.append(_HEADER, [_line(row.cells())])

    def rounds(self, since: float) -> Iterator[ScalingRound]:
        """Yield the rounds since a time (Unix seconds), oldest first. Malformed rows are skipped. Raises LbdnsError."""
        try:
            with self._path.open(newline="", encoding="utf-8", errors="replace") as file:
                yield from (
                    found for row in csv.DictReader(file) if (found := _round(row)) and found.demand.time >= since
                )
        except FileNotFoundError:
            return
        except OSError as error:
            raise LbdnsError(f"{self._path}: cannot read the file: {error.strerror}") from None

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


def _round(row: Mapping[str, str]) -> ScalingRound | None:
    try:
        demand = Demand(
            float(row["time"]), float(row["requests_per_s"]), float(row["cpu_percent"]) if row["cpu_percent"] else None
        )
        return ScalingRound(demand, int(row["in_service"]), int(row["recommended"]), int(row["wanted"]))
    except (KeyError, TypeError, ValueError):
        return None


def _line(cells: tuple[object, ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


_HEADER: Final = _line(COLUMNS)
