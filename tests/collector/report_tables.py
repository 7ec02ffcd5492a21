"""Report tables for tests, and helpers that send datagrams to the tables."""

from __future__ import annotations

from lbdns.scores.score import Score
from lbdns.scores.thesis import THESIS
from lbdns_collector.reports.report_table import ReportTable
from lbdns_shared.keys import MasterKey
from tests.collector.collector_fixtures import HOSTS, WALL

NOW = 5000.0  # monotonic seconds


def make(*keys: MasterKey, score: Score = THESIS) -> ReportTable:
    return ReportTable(HOSTS, keys, score)


def accept(table: ReportTable, data: bytes, source: str = "192.0.2.1", now: float = NOW, wall: float = WALL) -> str:
    return table.accept(data, source, now, wall)
