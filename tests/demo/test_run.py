"""Tests of the text that the demo prints when it is ready."""

from __future__ import annotations

import re
from pathlib import Path

from lbdns.demo.farm_files import DemoPlan
from lbdns.demo.run import _what_to_try


def test_the_explanations_of_commands_are_aligned() -> None:
    plan = DemoPlan(dns_port=5300, report_port=7777, http_port=8053, web_port=8080, ipv6=False)
    lines = _what_to_try(plan, Path("/tmp/lbdns.toml"), 1.5).splitlines()
    columns = {
        line.split(what)[0]: len(line.split(what)[0])
        for line in lines
        for what in ("the best server now", "each member in turn", "the reverse zone", "why")
        if re.search(rf"  {what}$|\S {what}$", line)
    }
    assert len(columns) == 4
    assert len(set(columns.values())) == 1, columns
