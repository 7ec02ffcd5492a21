"""Writes the rows of one table, survives errors such as a full disk, counts lost rows, and logs only changes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lbdns_agent.recorder.csv_file import CsvFile

log = logging.getLogger("lbdns.recorder")


class TableWriter:
    """A writer that appends rows to ``file``. Rows that can't be written are lost, but the writer tries again with the
    next rows."""

    def __init__(self, file: CsvFile) -> None:
        self.file = file
        self.lost = 0  # rows since the start
        self._lost_now = 0  # rows since writing began to fail; 0 while writing succeeds

    def write(self, header: str, rows: Sequence[str]) -> None:
        """Append ``rows`` if the file can be written; otherwise, count them as lost."""
        if not rows:
            return
        try:
            self.file.append(header, rows)
        except OSError as error:
            if not self._lost_now:
                log.error(
                    "%s: %s; rows are lost until the file can be written again", self.file.path, error.strerror or error
                )
            self._lost_now += len(rows)
            self.lost += len(rows)
            return
        if self._lost_now:
            log.info("%s: can be written again; %s", self.file.path, lost_rows(self._lost_now))
            self._lost_now = 0

    def close(self) -> None:
        """Close the file, and log how many rows were lost since the start."""
        self.file.close()
        if self.lost:
            log.warning("%s: %s in total", self.file.path, lost_rows(self.lost))


def lost_rows(count: int) -> str:
    """Return the number of lost rows as text for a log message."""
    return "1 row was lost" if count == 1 else f"{count} rows were lost"
