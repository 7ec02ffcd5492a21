"""Tables for tests, and handing datagrams to them."""

from __future__ import annotations

from lbdns.keys import MasterKey
from lbdns_collector.score import THESIS, Score
from lbdns_collector.table import Table
from tests.collector.making import HOSTS, WALL

NOW = 5000.0  # monotonic seconds


def make(*keys: MasterKey, score: Score = THESIS) -> Table:
    return Table(HOSTS, keys, score)


def accept(table: Table, data: bytes, source: str = "192.0.2.1", now: float = NOW, wall: float = WALL) -> str:
    return table.accept(data, source, now, wall)
