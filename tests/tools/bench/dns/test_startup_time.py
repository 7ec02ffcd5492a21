"""Tests of the list of imports that are slow at start-up."""

from __future__ import annotations

from lbdns_tools.bench.dns.startup_time import slowest


def test_the_slowest_imports_come_first() -> None:
    heads = "import time: self [us] | cumulative | imported package\n"
    text = heads + "import time:        30 |        500 | b\nimport time:        40 |         40 |   a\n"
    assert slowest(text) == [(40, "a"), (30, "b")]
