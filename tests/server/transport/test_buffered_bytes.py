"""Tests of the limit on buffered bytes: the total stays bounded, and the connections with the most bytes are closed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.server.transport import buffered_bytes
from lbdns.server.transport.buffered_bytes import BufferedBytes

LIMIT = 100


class Connection:
    def __init__(self, size: int = 0) -> None:
        self.buffered = size
        self.closed = False

    def close_early(self) -> None:
        self.buffered, self.closed = 0, True


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60), st.booleans())))
def test_the_total_is_bounded_and_the_largest_are_closed(steps: list[tuple[int, int, bool]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffered_bytes, "MAX_BUFFERED", LIMIT)
        limit, connections = BufferedBytes(), [Connection() for _ in range(10)]
        for number, size, is_told in steps:
            connection = connections[number]
            if connection.closed:
                continue
            before = [each.buffered for each in connections]
            connection.buffered = size if is_told else min(size, connection.buffered)  # buffers shrink unnoticed
            largest = max(each.buffered for each in connections)
            if is_told:
                limit.update(connection)
            assert sum(each.buffered for each in connections) <= LIMIT
            for each, held in zip(connections, before, strict=True):
                if each.closed and held:
                    assert largest >= held


def test_nothing_is_kept_of_a_closed_connection() -> None:
    limit, connection = BufferedBytes(), Connection(10)
    limit.update(connection)
    assert limit.total == 10
    connection.buffered = 0
    limit.update(connection)
    assert (limit.total, limit._sizes) == (0, {})
