"""Tests of the benchmark of a scaled farm, with a short load and real processes."""

from __future__ import annotations

import argparse
from pathlib import Path

from lbdns_tools.bench import scaling_farm
from lbdns_tools.scaler.demo.demo_files import ScalerDemoPlan, rates


def test_servers_follow_the_load_and_no_request_fails(tmp_path: Path) -> None:
    found = scaling_farm.measure(argparse.Namespace(seconds=45.0, highest=30.0), tmp_path)
    assert (found["failed"], found["removed_with_connections"], found["met"]) == (0, 0, True)
    assert found["requests"] > 100
    assert found["most_servers"] >= 2
    assert found["removed"] >= 1
    assert found["wanted_to_answer_s"] > 0


def test_the_load_has_the_shape_of_2014() -> None:
    found = rates(ScalerDemoPlan(lowest=4.0, highest=50.0))
    assert max(found) == found[7] == 50.0
    assert min(found) > 4.0
