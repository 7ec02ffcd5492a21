"""The files that a server keeps in its state directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lbdns.config.recording_sections import FILE_NAME as HISTORY
from lbdns.process.state_format import FILE_NAME as STATE_FORMAT
from lbdns.server.control.override_file import FILE_NAME as OVERRIDES
from lbdns.server.secondaries.zone_serials import FILE_NAME as SERIALS
from lbdns_collector.joining.joined_file import FILE_NAME as JOINED
from lbdns_collector.reports.sequence_file import FILE_NAME as SEQUENCES


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file in the state directory. The server replaces it atomically, unless it is an SQLite database."""

    name: str
    contents: str
    is_database: bool = False

    @property
    def companions(self) -> tuple[str, ...]:
        """The names of the files that SQLite keeps next to a database. A database is complete only together with these
        files."""
        return (f"{self.name}-wal", f"{self.name}-shm", f"{self.name}-journal") if self.is_database else ()


#: Every file by its name. The lock file and damaged files that the server has renamed are not state
STATE_FILES: Final[Mapping[str, StateFile]] = {
    file.name: file
    for file in (
        StateFile(STATE_FORMAT, "format number of the files"),
        StateFile(OVERRIDES, "drains, forced states and weights"),
        StateFile(JOINED, "joined members"),
        StateFile(SERIALS, "serial numbers of zones"),
        StateFile(SEQUENCES, "sequence numbers of reports"),
        StateFile(HISTORY, "recorded metrics and events", is_database=True),
    )
}
