"""Tests of reading recorded files, including damaged ones and those of other programs."""

from __future__ import annotations

import contextlib
import math
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.recorder import diskstats as parser
from lbdns_agent.recorder.disk_table import HEADER_2014, LBDNS
from lbdns_agent.recorder.recorded_file import CounterRow, RecordedRows, parse, read_file, read_files
from lbdns_shared.errors import ConfigError
from tests.agent.fixtures import KERNELS, proc_file
from tests.agent.recorder.recorders import DISKSTATS, TIMES_2014

HEADER = LBDNS.header(11)
COUNTERS = ",1,2,3,4,5,6,7,8,9,10,11"


@pytest.mark.parametrize("kernel", KERNELS)
def test_recorded_counters_are_read_back(kernel: str) -> None:
    lines = parser.parse(proc_file(kernel, "diskstats"))
    header, rows = LBDNS.table(1.5e9, list(lines.values()))
    found = parse([f"{line}\n" for line in (header, *rows)])
    assert found.disks == {name: [CounterRow(1.5e9, line.counters)] for name, line in lines.items()}
    assert (found.skipped, found.first) == (0, 1.5e9)


def test_the_file_of_2014() -> None:
    found = read_file(DISKSTATS / "mon_vda.csv")
    assert [row.time for row in found.disks["vda"]] == [time.timestamp() for time in TIMES_2014]
    assert found.disks["vda"][1].counters[4:8] == (1289934, 1519049, 48385184, 9417668)
    assert found.zone is None


def test_metrics() -> None:
    found = parse(["time,load1,new_metric\n", "2026-03-01T12:00:00+01:00,0.5,\n", "2026-03-01T12:00:01+01:00,,7\n"])
    assert list(found.metrics) == ["load1", "new_metric"]
    (first, load), (second, missing) = found.metrics["load1"]
    assert (second - first, load) == (1.0, 0.5)
    assert math.isnan(missing)
    assert found.zone is not None
    assert found.zone.utcoffset(None) == timedelta(hours=1)


@pytest.mark.parametrize(
    "row",
    [
        "2026-03-01T12:00:00+01:00,8,0,sda,1,2,3,4,5,6",  # cut by a crash
        "2026-03-01T12:00:00+01:00,8,0,sda,1,2,3,4,5,6,7,8,9,10,11,12",
        "2026-03-01T12:00:00+01:00,8,0,sda,1,2,3,4,5,6,7,8,9,10,",
        "2026-03-01T12:00:00+01:00,8,0,sda,1,2,3,4,5,6,7,8,9,10,many",
        f"yesterday,8,0,sda{COUNTERS}",
        f"0001-01-01T00:00:00+14:00,8,0,sda{COUNTERS}",
        f"9999-12-31T23:59:59-14:00,8,0,sda{COUNTERS}",
        f"2026-03-01T12:00:00+01:00,8,0,sda{COUNTERS}{'0' * 400}",
        "\0\0\0\0",
        '2026-03-01T12:00:00+01:00,8,0,"sda"b',
    ],
)
def test_malformed_rows_are_skipped(row: str) -> None:
    good = f"2026-03-01T12:00:01+01:00,8,0,sda{COUNTERS}"
    found = parse([f"{line}\n" for line in (HEADER, row, good)])
    assert found.skipped == 1
    assert [row.counters for row in found.disks["sda"]] == [tuple(range(1, 12))]


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999", "x"])
def test_a_metric_is_a_finite_number(value: str) -> None:
    found = parse(["time,load1\n", f"2026-03-01T12:00:00+01:00,{value}\n"])
    assert (found.skipped, found.metrics) == (1, {})


def test_rotated_files_are_put_in_order(tmp_path: Path) -> None:
    paths = []
    for hour in (12, 10, 11):
        paths.append(tmp_path / f"{hour}.csv")
        paths[-1].write_text(f"{HEADER}\n2026-03-01T{hour}:00:00+00:00,8,0,sda{COUNTERS}\n")
    (tmp_path / "empty.csv").write_text(f"{HEADER}\n")
    found = read_files([*paths, tmp_path / "empty.csv"])
    times = [row.time for row in found.disks["sda"]]
    assert times == sorted(times)
    assert (len(times), found.first) == (3, times[0])


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "time\n", "time,a,b\n", f"{HEADER[5:]}\n", f"{HEADER_2014}x\n"])
def test_other_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"x\.csv: not a recorded file: its first line must be the header that"):
        read_file(path)


@pytest.mark.parametrize(("name", "error"), [("none.csv", "No such file or directory"), (".", "Is a directory")])
def test_files_that_can_not_be_read(name: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=error):
        read_file(tmp_path / name)


@given(st.sampled_from([HEADER, HEADER_2014, "time,load1", ""]), st.text("0123456789-T:+.,\"'\n\r\0ab") | st.text())
def test_anything_else_is_skipped_or_a_value_error(header: str, text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse([f"{header}\n", *text.splitlines(keepends=True)]), RecordedRows)
