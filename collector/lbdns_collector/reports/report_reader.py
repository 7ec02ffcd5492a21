"""Report readers open, verify and decode datagrams, in Python or with the native extension. Sans-I/O.

Python defines the format. The native reader is a faster path for valid datagrams: whatever it cannot read, it leaves to
Python, which decides whether the datagram is valid, and for what reason it is not.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from lbdns.answering.plane import AVAILABLE
from lbdns.config.server_section import PlaneName
from lbdns.scores.score import Score
from lbdns_collector.reports.report_batch import ReportAcceptor, ReportBatch
from lbdns_collector.reports.report_figures import NativeFigures, PythonFigures, ReportFigures
from lbdns_shared.report import AgentKey, Envelope, Report, decode_body, open_envelope

if AVAILABLE:
    import lbdns_native


class OpenedReport(Protocol):
    """A datagram that is split into its fields, which are not authenticated yet."""

    @property
    def host(self) -> str: ...

    @property
    def key_id(self) -> bytes: ...

    def signed_by(self, key: AgentKey) -> bool:
        """Return whether the tag was made with ``key``. The comparison takes constant time."""


class ReportReader:
    """The Python reader."""

    def open(self, datagram: bytes) -> OpenedReport:
        """Split a datagram into its fields. Raises ReportError (too_long, malformed)."""
        return open_envelope(datagram)

    def decode(self, opened: OpenedReport) -> Report:
        """Return the report in a datagram that ``open`` has returned, after its sender has been verified.

        Raises ReportError (malformed).
        """
        assert isinstance(opened, Envelope)
        return decode_body(opened)

    def batch(self) -> ReportBatch | None:
        """Return the buffers for one socket, or None if datagrams are read one at a time."""
        return None

    def acceptor(self, reading: type[Any], accepted: type[Any]) -> ReportAcceptor | None:
        """Return what accepts the next reports of known hosts, or None if the report table judges all reports.

        ``reading`` and ``accepted`` are the classes ``Reading`` and ``AcceptedReport``.
        """
        return None

    def figures(self, score: Score, shadow: Score | None) -> ReportFigures:
        """Return what computes scores and other figures from reports."""
        return PythonFigures(score, shadow)


class NativeReportReader(ReportReader):
    """The native reader. Construct it only if the native extension is available."""

    def open(self, datagram: bytes) -> OpenedReport:
        return lbdns_native.ReportEnvelope.open(datagram) or open_envelope(datagram)

    def decode(self, opened: OpenedReport) -> Report:
        if not isinstance(opened, lbdns_native.ReportEnvelope):
            return super().decode(opened)
        fields = opened.decode()
        return decode_body(open_envelope(opened.datagram)) if fields is None else Report._make(fields)

    def batch(self) -> ReportBatch | None:
        return lbdns_native.ReportBatch()

    def acceptor(self, reading: type[Any], accepted: type[Any]) -> ReportAcceptor | None:
        return lbdns_native.ReportAcceptor(reading, accepted)

    def figures(self, score: Score, shadow: Score | None) -> ReportFigures:
        return NativeFigures(score, shadow)


PYTHON_READER: Final = ReportReader()


def choose_reader(requested: PlaneName) -> ReportReader:
    """Return the reader for ``[server] plane``: the native one if the extension is available and not switched off."""
    return PYTHON_READER if requested == "python" or not AVAILABLE else NativeReportReader()
