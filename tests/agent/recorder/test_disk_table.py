"""Tests of the table formats; the file of 2014 is reproduced byte for byte."""

from __future__ import annotations

import csv
import io
from datetime import datetime, timezone
from pathlib import Path

import pytest

from lbdns_agent.recorder import diskstats as parser
from lbdns_agent.recorder.counter_increases import increases
from lbdns_agent.recorder.disk_table import FORMATS, LBDNS, STUDY_2014, file_name, quoted, time_with_zone
from lbdns_agent.recorder.diskstats import SECTOR, DiskCounterLine
from lbdns_agent.recorder.recorded_file import read_file
from tests.agent.fixtures import proc_file
from tests.agent.recorder.recorders import DISKSTATS, TIMES_2014, record_rounds

ROUNDS_2014 = ("study-2014-1", "study-2014-2")


def test_the_file_of_2014(tmp_path: Path) -> None:
    times = [time.timestamp() for time in TIMES_2014]
    out = record_rounds(tmp_path, ROUNDS_2014, times, "--devices", "vda", "--format", "2014")
    assert [path.name for path in out.iterdir()] == ["mon_vda.csv"]
    assert (out / "mon_vda.csv").read_bytes() == (DISKSTATS / "mon_vda.csv").read_bytes()


def test_the_differences_between_the_rows_of_2014() -> None:
    (part,) = increases(read_file(DISKSTATS / "mon_vda.csv").disks["vda"])
    assert part is not None
    assert part.seconds == pytest.approx(1.002254, abs=1e-6)
    assert [part.of(name) for name in ("writes", "writes_merged", "sectors_written", "write_ms", "busy_ms")] == [
        17, 25, 336, 31, 3,
    ]  # fmt: skip
    assert part.of("sectors_written") * SECTOR == 172_032
    assert [part.of(name) for name in ("reads", "reads_merged", "sectors_read", "read_ms", "in_progress")] == [0] * 5


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ("all", {"lbdns": "diskstats.csv", "2014": "mon_diskstats.csv"}),
        ("vda", {"lbdns": "diskstats_vda.csv", "2014": "mon_vda.csv"}),
        ("vda1,vda", {"lbdns": "diskstats_vda1_vda.csv", "2014": "mon_diskstats_vda1_vda.csv"}),
    ],
)
@pytest.mark.parametrize("name", FORMATS)
def test_file_names_and_rows(devices: str, expected: dict[str, str], name: str, tmp_path: Path) -> None:
    out = record_rounds(tmp_path, ROUNDS_2014, [0.0, 1.0], "--devices", devices, "--format", name)
    assert [path.name for path in out.iterdir()] == [expected[name]]
    rows = [line.split(",")[3] for line in (out / expected[name]).read_text().splitlines()[1:]]
    assert rows == 2 * (["loop0", "vda", "vda1"] if devices == "all" else devices.split(","))


def test_a_slash_in_a_device_name_is_no_directory() -> None:
    assert file_name("diskstats", ["cciss/c0d0"]) == "diskstats_cciss!c0d0.csv"


def test_too_many_devices_for_a_file_name() -> None:
    with pytest.raises(ValueError, match="40 names don't fit into a file name; record fewer, or record 'all'"):
        file_name("diskstats", [f"nvme{number}n1" for number in range(40)])


@pytest.mark.parametrize(("kernel", "last"), [("3.10", "weighted_ms"), ("4.19", "discard_ms"), ("6.18", "flush_ms")])
def test_all_counters_of_a_kernel_are_recorded(kernel: str, last: str) -> None:
    lines = list(parser.parse(proc_file(kernel, "diskstats")).values())
    header, rows = LBDNS.table(0.0, lines)
    assert header.startswith("time,major,minor,device,reads,reads_merged,sectors_read,read_ms,writes,")
    assert header.endswith(f",{last}")
    numbers = [row.split(",")[4:] for row in rows]
    assert numbers == [list(map(str, line.counters)) for line in lines]
    old_header, old_rows = STUDY_2014.table(0.0, lines)
    assert {len(row.split(",")) for row in [old_header, *old_rows]} == {15}


def test_a_line_with_fewer_counters_than_others_ends_in_empty_fields() -> None:
    lines = [DiskCounterLine(8, 0, "sda", (1,) * 17), DiskCounterLine(8, 1, "sda1", (2,) * 11)]
    header, (_, row) = LBDNS.table(0.0, lines)
    assert row.split(",")[4:] == ["2"] * 11 + [""] * 6
    assert row.count(",") == header.count(",")


def test_a_time_has_its_zone() -> None:
    time = datetime.fromisoformat(time_with_zone(1_418_567_227.25))
    assert time.utcoffset() is not None
    assert time == datetime(2014, 12, 14, 14, 27, 7, 250000, tzinfo=timezone.utc)
    assert time_with_zone(1_418_567_227.0)[19:26] == ".000000", "every row has microseconds"


@pytest.mark.parametrize("name", ["sda", "md_a,b", 'md_"x"'])
def test_names_are_quoted_for_csv(name: str) -> None:
    assert next(csv.reader(io.StringIO(f"{quoted(name)},1"))) == [name, "1"]
