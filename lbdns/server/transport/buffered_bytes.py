"""Limits the total number of bytes buffered by the TCP connections of a listening socket. Sans-I/O."""

from __future__ import annotations

from typing import Final, Protocol

MAX_BUFFERED: Final = 32 * 2**20  # bytes of queries that wait for a turn, and of responses that clients do not read


class BufferingConnection(Protocol):
    """A connection that buffers bytes."""

    @property
    def buffered(self) -> int:
        """Return the number of bytes in the connection's buffers."""

    def close_early(self) -> None:
        """Close the connection and empty its buffers."""


class BufferedBytes:
    """Adds up the bytes that all connections buffer.

    If the total exceeds the limit, closes the connections that buffer the most.
    """

    def __init__(self) -> None:
        self._sizes: dict[BufferingConnection, int] = {}  # at the last update; buffers may have shrunk since
        self.total = 0

    def update(self, connection: BufferingConnection) -> None:
        """Record that the buffers of ``connection`` may have grown, or that it has been closed."""
        size, before = connection.buffered, self._sizes.pop(connection, 0)
        if size:
            self._sizes[connection] = size
        self.total += size - before
        if self.total > MAX_BUFFERED:
            self._reduce()

    def _reduce(self) -> None:
        self._sizes = {connection: connection.buffered for connection in self._sizes}
        self.total = sum(self._sizes.values())
        for connection in sorted(self._sizes, key=lambda each: -self._sizes[each]):
            if self.total <= MAX_BUFFERED:
                return
            self.total -= self._sizes.pop(connection)
            connection.close_early()
