"""Tests of lost rows, which are counted, and logged when writing begins to fail, succeeds again, and at the end."""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from lbdns_agent.recorder.csv_file import CsvFile
from lbdns_agent.recorder.rotation import Rotation
from lbdns_agent.recorder.table_writer import TableWriter

HEADER, ROW = "time,load1", "2026-03-01T12:00:00+00:00,1"


class UnreliableFile(CsvFile):
    """A file whose next appends fail if ``full`` is true."""

    full = False

    def append(self, header: str, rows: Sequence[str]) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(header, rows)


def test_lost_rows_are_counted_and_only_changes_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "metrics.csv"
    file = UnreliableFile(path, Rotation())
    writer = TableWriter(file)
    for full in (False, True, True, True, False, False, True, False):
        file.full = full
        writer.write(HEADER, [ROW] if not full or writer.lost > 2 else [ROW, ROW])
    writer.close()
    assert path.read_text().splitlines() == [HEADER, *[ROW] * 4]
    assert [(record.levelname, record.message.partition(": ")[2]) for record in caplog.records] == [
        ("ERROR", "No space left on device; rows are lost until the file can be written again"),
        ("INFO", "can be written again; 5 rows were lost"),
        ("ERROR", "No space left on device; rows are lost until the file can be written again"),
        ("INFO", "can be written again; 1 row was lost"),
        ("WARNING", "6 rows were lost in total"),
    ]


def test_a_round_without_rows_writes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = TableWriter(CsvFile(tmp_path / "metrics.csv", Rotation()))
    writer.write("", [])
    writer.close()
    assert list(tmp_path.iterdir()) == []
    assert caplog.records == []
