"""Start: the large zone, and the list of slow imports."""

from __future__ import annotations

from lbdns_tools.bench.dns.startup_time import host_lines, slowest


def test_the_slowest_imports_come_first() -> None:
    heads = "import time: self [us] | cumulative | imported package\n"
    text = heads + "import time:        30 |        500 | b\nimport time:        40 |         40 |   a\n"
    assert slowest(text) == [(40, "a"), (30, "b")]


def test_the_names_of_a_large_zone_differ() -> None:
    lines = host_lines(70_000).splitlines()
    assert len({line.split()[0] for line in lines}) == len({line.split()[2] for line in lines}) == 70_000
