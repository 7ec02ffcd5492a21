"""Tests of the benchmark of joining hosts, with few hosts and real processes."""

from __future__ import annotations

import argparse
from pathlib import Path

from lbdns_tools.bench import joining_hosts


def test_every_host_joins_and_no_query_is_lost(tmp_path: Path) -> None:
    found = joining_hosts.measure(argparse.Namespace(hosts=20, rate=500.0, workers=1), tmp_path)
    assert (found["hosts"], found["lost"], found["unexpected"], found["met"]) == (20, 0, 0, True)
    assert 0 < found["first_s"] <= found["all_s"]
    assert found["answered"] == found["sent"] > 0


def test_addresses_are_distinct() -> None:
    addresses = {joining_hosts.address_of(number) for number in range(10_000)}
    assert len(addresses) == 10_000
    assert all(address.startswith("127.1.") for address in addresses)
