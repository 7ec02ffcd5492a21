"""Tests of the stat file's lines in both formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns.model.overrides import NO_OVERRIDES
from lbdns.model.snapshot import Reading, Snapshot
from lbdns_collector.status.stat_lines import COLUMNS, render, render_1999
from tests.collector.collector_fixtures import IDLE, make_farm
from tests.collector.status.stat_rows import rows
from tests.config.config_files import pool_table
from tests.overriding import drains

NOW = 5000.0
BUSY = {
    "cpu_idle": 42.5, "gateway_ping": 1.25, "run_queue": 3.0, "scan_rate": 10.0, "requests_per_s": 1 / 3,
    "busy_workers": 13.0, "idle_workers": 7.0,
}  # fmt: skip


def test_lines(tmp_path: Path) -> None:
    metrics = {**IDLE, "cpu_idle": 42.5, "requests_total": 123456789.0, "load1": 1e20, "goblins": 3.0, "net_rx": 1 / 3}
    known = {"gandalf.hobbit": Reading(NOW - 1.24, 1.0, 66, metrics), "frodo.hobbit": Reading(NOW - 60, 1.0, 80, IDLE)}
    text = render(make_farm(tmp_path), Snapshot(1, known), drains("frodo.hobbit"), NOW)
    assert text.startswith("# member:pool:state:score:age:run_queue:cpu_idle:")
    assert text.endswith("\n")
    found = rows(text)
    assert set(found) == {"bilbo", "frodo", "gandalf"}
    gandalf = found["gandalf"]
    assert [gandalf[name] for name in COLUMNS[:5]] == ["gandalf", "web", "usable", "66", "1.2"]
    assert (gandalf["cpu_idle"], gandalf["requests_total"], gandalf["idle_workers"]) == ("42.5", "123456789", "20")
    assert (gandalf["load1"], gandalf["net_rx"], gandalf["disk_busy"]) == ("1e+20", "0.333", "")
    assert (found["frodo"]["state"], found["frodo"]["age"]) == ("drained", "60")
    assert set(found["bilbo"].values()) == {"bilbo", "web", "unknown", ""}


def test_a_pool_s_name_makes_no_columns(tmp_path: Path) -> None:
    farm = make_farm(tmp_path, more=pool_table("frodo", name="a:b\nc", more='names = { x = "best" }'))
    lines = render(farm, Snapshot(), NO_OVERRIDES, NOW).splitlines()
    assert lines[-1].startswith("frodo:a_b_c:unknown:")
    assert {line.count(":") for line in lines} == {len(COLUMNS) - 1}


def lines_1999(text: str) -> dict[str, list[str]]:
    """Return the fields after each host's name."""
    assert text == "" or text.endswith("\n")
    found = {host: fields for host, *fields in (line.split(":") for line in text.splitlines())}
    assert len(found) == text.count("\n")
    return found


def test_lines_of_1999(tmp_path: Path) -> None:
    known = {"gandalf.hobbit": Reading(NOW - 1.24, 1.0, 66, BUSY), "frodo.hobbit": Reading(NOW - 60, 1.0, 80, BUSY)}
    found = lines_1999(render_1999(make_farm(tmp_path), Snapshot(1, known), NO_OVERRIDES, NOW))
    assert list(found) == ["bilbo", "frodo", "gandalf"]
    assert found["gandalf"] == ["66", "57.5", "1.25", "3", "10", "0.333", "13", "7"]
    assert found["frodo"] == ["0", *found["gandalf"][1:]], "a silent host must not be the best one"
    assert found["bilbo"] == ["0", *[""] * 7]


@pytest.mark.parametrize(
    ("reading", "weight"),
    [
        (Reading(NOW, 1.0, 66, BUSY), "66"),
        (Reading(NOW, 1.0, None, BUSY), ""),
        (Reading(NOW, 1.0, 66, BUSY, alarm="run_queue/cpu 70 > 64"), "0"),
        (Reading(NOW, 1.0, 66, BUSY, gone=True), "0"),
    ],
)
def test_only_usable_hosts_have_a_weight(tmp_path: Path, reading: Reading, weight: str) -> None:
    text = render_1999(make_farm(tmp_path), Snapshot(1, {"gandalf.hobbit": reading}), NO_OVERRIDES, NOW)
    assert lines_1999(text)["gandalf"][0] == weight


@pytest.mark.parametrize("drained", ["web", "mail"])
def test_a_host_in_two_pools_has_one_line(tmp_path: Path, drained: str) -> None:
    more = pool_table("gandalf", name="mail", more='names = { mail = "best" }')
    known = {"gandalf.hobbit": Reading(NOW, 1.0, 66, BUSY)}
    farm = make_farm(tmp_path, members=("gandalf",), more=more)
    text = render_1999(farm, Snapshot(1, known), drains("gandalf.hobbit", pool=drained), NOW)
    assert text == "gandalf:66:57.5:1.25:3:10:0.333:13:7\n"
    assert render_1999(farm, Snapshot(1, known), drains("gandalf.hobbit"), NOW).startswith("gandalf:0:")
