"""Makes snapshots of readings that change, for programs that follow collectors. Sans-I/O."""

from __future__ import annotations

from collections.abc import Mapping

from lbdns.model.snapshot import Reading, ReadingChanges, Snapshot


class SnapshotMaker:
    """The newest reading of each member by full name, and the snapshots of these readings.

    Copying all readings takes a tenth of the time that looking up the reading of each member takes.
    """

    def __init__(self) -> None:
        self._readings: dict[str, Reading] = {}
        self._changed: dict[str, None] = {}  # full names of the members that have changed since the newest snapshot
        self._changes = ReadingChanges()  # of the newest snapshot
        self._version = 0

    def update(self, readings: Mapping[str, Reading]) -> None:
        """Replace the readings of the members in ``readings``, and keep the others."""
        self._readings.update(readings)
        self._changed.update(dict.fromkeys(readings))

    def replace_all(self, readings: Mapping[str, Reading]) -> None:
        """Replace all readings by ``readings``."""
        self._changed.update(dict.fromkeys((*self._readings, *readings)))
        self._readings = dict(readings)

    def make(self) -> Snapshot:
        """Return a snapshot of the current readings. Each has a higher version than the one before."""
        self._version += 1
        self._changes.next = ReadingChanges(self._changed)
        self._changes, self._changed = self._changes.next, {}
        return Snapshot(self._version, self._readings.copy(), self._changes)
