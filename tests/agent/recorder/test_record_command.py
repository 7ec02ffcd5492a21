"""Tests of the command 'record': its arguments, one round, cron, and mistakes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from lbdns_agent import cli
from lbdns_agent.recorder import plot_command, record_command
from lbdns_agent.recorder.csv_file import CsvFile
from lbdns_agent.recorder.record_command import RecordOptions
from lbdns_agent.recorder.rotation import Rotation
from lbdns_shared import __version__
from lbdns_shared.metric_catalogue import CATALOGUE
from tests.agent.recorder.recorders import assert_whole, record_rounds
from tests.needs import needs, program

QUIET = ("--gateway", "off", "--server-status", "off")


def options(*arguments: str) -> RecordOptions:
    parser = record_command.build_parser()
    return record_command.read_options(parser, parser.parse_args(["--out", "/o", *arguments]))


def test_the_defaults() -> None:
    found = options("--devices", "sda")
    assert (found.out, found.devices, found.metrics) == (Path("/o"), ("sda",), None)
    assert (found.table_format, found.rotation, found.once, found.sensors.interval) == ("lbdns", Rotation(), False, 1.0)


def test_everything_else() -> None:
    found = options(
        "--devices", "sdb, sda,sdb,/dev/null", "--metrics", "load1,cpu_idle", "--interval", "60", "--once",
        "--rotate", "day", "--format", "2014", "--cgroup", "off", *QUIET,
    )  # fmt: skip
    assert (found.devices, found.metrics) == (("sdb", "sda", "null"), ("load1", "cpu_idle"))
    assert (found.table_format, found.rotation, found.once) == ("2014", Rotation(daily=True), True)
    sensors = found.sensors
    assert (sensors.interval, sensors.cgroup, sensors.gateway, sensors.status) == (60.0, "off", None, None)
    assert options("--devices", "all", "--metrics", "all").devices == ()
    assert options("--metrics", "all").metrics == ()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "the following arguments are required: --out"),
        (["--out", "/tmp"], "nothing to record; add --devices D,... (or --devices all), or --metrics NAME,..."),
        (["--out", "/tmp", "--devices", "sda,,sdb"], "must be names separated by commas, or 'all', not 'sda,,sdb'"),
        (["--out", "/tmp", "--devices", "all,sda"], "must be names separated by commas"),
        (["--out", "/tmp", "--metrics", "speed"], "unknown metric 'speed'; the metrics are: run_queue, cpu_idle"),
        (["--out", "/tmp", "--metrics", "all", "--interval", "0"], "must be a number of seconds from 0.1 to 3600"),
        (["--out", "/tmp", "--devices", "all", "--rotate", "weekly"], "must be 'day' or a size of at least 4k"),
        (["--out", "/tmp", "--devices", "all", "--format", "1999"], "invalid choice: '1999'"),
        (["--out", "/tmp", "--devices", ",".join(f"nvme{n}n1" for n in range(50))], "don't fit into a file name"),
        (["--out", "/tmp", "--devices", "lbdns-none"], "unknown device 'lbdns-none'; /proc/diskstats lists: "),
        (["--out", "/dev/null/x", "--devices", "all"], "--out: /dev/null/x: Not a directory"),
        (["--out", "/dev/null", "--devices", "all"], "--out: /dev/null: not a directory"),
    ],
)
def test_what_is_refused(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["record", *arguments]) == 2
    shown = capsys.readouterr()
    assert error in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_every_unknown_device_has_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["record", "--devices", "no-1,no-2", "--out", str(tmp_path / "out"), "--once"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        f"lbdns-agent record: --devices: unknown device 'no-{number}'" for number in (1, 2)
    ]
    assert not (tmp_path / "out").exists(), "a mistake leaves nothing behind"


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["record", "--help"]) == 0
    text = capsys.readouterr().out
    assert "lbdns-agent record --devices sda,sdb --out /var/log/disks" in text
    for option in ("devices", "metrics", "interval", "once", "out", "rotate", "format"):
        assert f"--{option}" in text
    assert cli.main(["record", "--version"]) == 0
    assert capsys.readouterr().out == f"lbdns-agent {__version__}\n"


@pytest.mark.parametrize("command", [record_command, plot_command])
def test_every_option_is_documented(command: ModuleType) -> None:
    page = (Path(__file__).parents[3] / "docs" / "tasks" / "record-disks.md").read_text()
    found = [text for action in command.build_parser()._actions for text in action.option_strings]
    assert "--out" in found
    for option in found:
        if option not in ("-h", "--help", "--version"):
            assert f"| `{option}" in page or f"`, `{option}" in page, option


def test_the_help_of_the_agent_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "lbdns-agent record --help" in text
    assert "lbdns-agent plot --help" in text


def once(out: Path, *arguments: str, wrapper: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*wrapper, sys.executable, "-m", "lbdns_agent", "record", "--once", "--out", str(out), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_rounds_of_cron_append_to_one_file_and_say_nothing(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    for _ in range(2):
        run = once(out, "--devices", "all", "--metrics", "load1,cpu_idle", *QUIET)
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert sorted(path.name for path in out.iterdir()) == ["diskstats.csv", "metrics_load1_cpu_idle.csv"]
    known = [line.split()[2] for line in Path("/proc/diskstats").read_text().splitlines()]
    rows = assert_whole((out / "diskstats.csv").read_text())
    assert [row.split(",")[3] for row in rows] == 2 * known
    header, *values = (out / "metrics_load1_cpu_idle.csv").read_text().splitlines()
    assert header == "time,load1,cpu_idle"
    assert len(values) == 2
    assert all(float(field) >= 0 for value in values for field in value.split(",")[1:])


def test_all_metrics(tmp_path: Path) -> None:
    assert once(tmp_path, "--metrics", "all", "--log-level", "error", *QUIET).returncode == 0
    header, row = (tmp_path / "metrics.csv").read_text().splitlines()
    assert header.split(",") == ["time", *CATALOGUE]
    assert len(row.split(",")) == 1 + len(CATALOGUE)


def test_a_file_that_another_recorder_writes(tmp_path: Path) -> None:
    file = CsvFile(tmp_path / "diskstats.csv", Rotation())
    file.open()
    run = once(tmp_path, "--devices", "all")
    assert run.returncode == 1
    assert run.stderr.endswith("diskstats.csv: another recorder is writing to this file\n")
    file.close()
    assert (tmp_path / "diskstats.csv").read_bytes() == b""


def test_a_kernel_with_more_counters_begins_another_file(tmp_path: Path) -> None:
    out = record_rounds(tmp_path, ["wrap-32-1"], [1.5e9], "--devices", "all")
    record_rounds(tmp_path, ["vanish-1"], [1.5e9 + 60], "--devices", "all")
    (old,) = (path for path in out.iterdir() if path.name != "diskstats.csv")
    assert old.name.startswith("diskstats.2017-07-1")
    assert len(assert_whole(old.read_text())) == 1
    assert len(assert_whole((out / "diskstats.csv").read_text())) == 2


@needs(namespaces=True, programs=("unshare", "mount"))
def test_a_directory_that_is_read_only(tmp_path: Path) -> None:
    script = f'{program("mount")} -t tmpfs -o ro none "{tmp_path}" && exec "$0" "$@"'
    run = once(tmp_path, "--devices", "all", wrapper=(program("unshare"), "--mount", "sh", "-c", script))
    assert run.returncode == 2
    assert run.stderr == f"lbdns-agent record: --out: {tmp_path}: this user can't create files in this directory\n"
