"""Report batches: read, verify and decode all datagrams that wait in a socket with one call of the native extension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lbdns.answering.plane import AVAILABLE
from lbdns_shared.report import Report

if AVAILABLE:
    import lbdns_native


class ReportKeys(Protocol):
    """The keys with which a batch verifies reports. They belong to hosts that have already sent an authentic report."""

    def add(self, host: str, key_id: bytes, secret: bytes) -> None:
        """Add or replace the key with which ``host`` signs the reports that name ``key_id``."""

    def clear(self) -> None:
        """Remove all keys."""


class ReportBatch(Protocol):
    """The newest datagrams from one socket, up to 64. The items of a batch are valid until the next is received."""

    def receive(self, fd: int, keys: ReportKeys) -> Sequence[Report | None]:
        """Replace the batch by the datagrams that wait in socket ``fd``.

        Return an item for each datagram: the report, if it is authentic and well formed, or None if Python must judge
        the datagram. Raises OSError if reading fails.
        """

    def datagram(self, at: int) -> bytes:
        """Return datagram ``at``, up to one byte more than a report may have."""

    def source(self, at: int) -> str:
        """Return the address of the sender of datagram ``at``."""


class NativeReportBatch:
    """The native batch. Construct it only if the native extension is available."""

    def __init__(self) -> None:
        self._batch = lbdns_native.ReportBatch(Report)
        self.datagram, self.source = self._batch.datagram, self._batch.source

    def receive(self, fd: int, keys: ReportKeys) -> Sequence[Report | None]:
        assert isinstance(keys, lbdns_native.ReportKeys)
        return self._batch.receive(fd, keys)
