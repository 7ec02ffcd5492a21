"""Parses HAProxy's table of statistics, as ``show stat`` and the CSV page return it. Pure."""

from __future__ import annotations

import csv
from collections.abc import Mapping

StatisticsRow = Mapping[str, str]


def parse_statistics(text: str) -> list[StatisticsRow]:
    """Return the rows of the table, each as a map from column name to text. Raises ValueError if it is malformed."""
    head, _, rest = text.partition("\n")
    if not head.startswith("# pxname,"):
        raise ValueError("not a table of HAProxy's statistics")
    columns = head[2:].strip().split(",")
    try:
        return [dict(zip(columns, row)) for row in csv.reader(line for line in rest.splitlines() if line.strip())]
    except csv.Error as error:
        raise ValueError(f"not a table of HAProxy's statistics: {error}") from None
