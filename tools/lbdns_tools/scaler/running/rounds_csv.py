"""Writes a CSV row for each round as soon as the round is over, and reads past rounds after a restart."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

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
    running: int  # machines that run
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
    """Appends rows to a CSV file. Each row is complete on disk before the next round begins."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        """Write the header if the file is new. Raises LbdnsError if the file has other columns or cannot be written."""
        self._path, self._read_only = path, read_only
        if read_only:
            return
        try:
            with path.open("a+", newline="", encoding="utf-8") as file:
                file.seek(0)
                header = file.readline().strip()
                if not header:
                    file.write(_line(COLUMNS))
                elif header.split(",") != list(COLUMNS):
                    raise LbdnsError(f"{path}:1: the file has other columns; move it away, or choose another file")
                elif not path.read_bytes().endswith(b"\n"):
                    file.write("\n")  # ends a row that a crash cut off
        except OSError as error:
            raise LbdnsError(f"{path}: cannot write the file: {error.strerror}") from None

    def append(self, row: RoundRow) -> None:
        """Append a row, unless the file is read-only. Raises OSError."""
        if self._read_only:
            return
        with self._path.open("a", newline="", encoding="utf-8") as file:
            file.write(_line(row.cells()))

    def rounds(self, since: float) -> Iterator[ScalingRound]:
        """Yield the rounds since a time (Unix seconds), oldest first. Incomplete rows are skipped."""
        if not self._path.exists():
            return
        with self._path.open(newline="", encoding="utf-8", errors="replace") as file:
            for row in csv.DictReader(file):
                try:
                    cpu = float(row["cpu_percent"]) if row["cpu_percent"] else None
                    demand = Demand(float(row["time"]), float(row["requests_per_s"]), cpu)
                    found = ScalingRound(demand, int(row["in_service"]), int(row["recommended"]), int(row["wanted"]))
                except (TypeError, ValueError):
                    continue
                if demand.time >= since:
                    yield found


def _line(cells: tuple[object, ...]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
