"""Each report of the flood is rejected, for the reason that the flood names."""

from __future__ import annotations

import time
from random import Random

from lbdns.model.farm import ReportingHost
from lbdns.scores import SCORES
from lbdns_collector.reports.report_table import ACCEPTED, ReportTable
from lbdns_shared.keys import new_master_key
from lbdns_shared.report import Report, encode
from lbdns_tools.faults.bus_flood import REASONS, reports

HOSTS = {host: ReportingHost((f"{host}.hobbit",), ()) for host in ("frodo", "gandalf")}


def test_every_report_is_rejected_for_its_reason() -> None:
    key = new_master_key()
    table = ReportTable(HOSTS, [key], SCORES["headroom"])
    wall = time.time()
    first = encode(Report("frodo", 1, 1, wall, 1.0, {}), key.agent_key("frodo"))
    assert table.accept(first, "subject", 0.0, wall, "frodo") == ACCEPTED
    flood = reports("frodo", "gandalf", key, Random(1))
    assert [table.accept(each, "subject", 0.0, wall, "frodo") for each in flood] == list(REASONS)
