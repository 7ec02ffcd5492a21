"""Interfaces of the native extension: read all datagrams that wait in a socket, and accept the next reports of known
hosts.
"""

from __future__ import annotations

from typing import Any, Protocol

from lbdns.model.snapshot import Reading

#: Where an acceptor stores the readings of accepted reports: the readings and the changed members by full name, the
#: native score and second score, the longest interval in seconds, and, with a bus, whether the reports come from it
AcceptTarget = tuple[dict[str, Reading], dict[str, None], Any, Any, float, bool | None]


class ReportAcceptor(Protocol):
    """Accepts the next reports of known hosts: those that have already sent an authentic report.

    A report is accepted here if it contains only data, and is newer than the last one of the same boot. The acceptor
    leaves all other datagrams to the report table, without any change.
    """

    def add(self, host: str, key_id: bytes, secret: bytes, peer: Any) -> None:
        """Add or replace the key with which ``host`` signs the reports that name ``key_id``.

        ``peer`` is the ``ReportingPeer`` of the host.
        """

    def accept(self, datagram: bytes, host: str, now: float, wall: float, target: AcceptTarget) -> bool:
        """Accept a datagram from a bus, whose subject names ``host``. Return False if the table must judge it.

        ``now`` is in monotonic seconds, and ``wall`` is in Unix seconds.
        """

    def clear(self) -> None:
        """Remove all hosts."""


class ReportBatch(Protocol):
    """The newest datagrams from one socket, up to 64. They are valid until the next are received."""

    def receive(self, fd: int) -> int:
        """Replace the batch by the datagrams that wait in socket ``fd``, and return their number.

        Raises OSError if reading fails.
        """

    def accept(self, at: int, acceptor: Any, now: float, wall: float, target: AcceptTarget) -> int:
        """Accept the datagrams from number ``at`` on, up to the first one that the table must judge.

        Return the number of this datagram, or the size of the batch.
        """

    def datagram(self, at: int) -> bytes:
        """Return datagram ``at``, up to one byte more than a report may have."""

    def source(self, at: int) -> str:
        """Return the address of the sender of datagram ``at``."""
