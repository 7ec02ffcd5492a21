"""The command ``lbdns-agent record``: parses the arguments, then records once or until a signal arrives."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lbdns_agent.agent_loop import SignalPipe
from lbdns_agent.agent_options import AgentOptions, default_name, parse_interval
from lbdns_agent.command_options import (
    add_log_options,
    add_sensor_options,
    add_version,
    argument_type,
    print_error,
    status_page_url,
)
from lbdns_agent.kernel_files import KernelFile
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_agent.recorder.csv_file import CsvFile
from lbdns_agent.recorder.disk_source import DiskSource, device_name
from lbdns_agent.recorder.disk_table import FORMATS, file_name
from lbdns_agent.recorder.metrics_source import MetricsSource
from lbdns_agent.recorder.recorder_loop import RecordedTable, Recorder, log_start, open_files, record_once
from lbdns_agent.recorder.rotation import DAY, Rotation, parse_rotation
from lbdns_shared import log
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_shared.metric_catalogue import CATALOGUE

ALL: Final = "all"
PROG: Final = "lbdns-agent record"
EXAMPLES: Final = """examples:
  lbdns-agent record --devices sda,sdb --out /var/log/disks               one row per disk and second
  lbdns-agent record --devices all --interval 10 --rotate day --out /var/log/disks
  lbdns-agent record --devices sda --once --out /var/log/disks            one row, for cron
  lbdns-agent record --metrics run_queue,cpu_idle --out /var/log/load
"""


@dataclass(frozen=True)
class RecordOptions:
    """The options of ``lbdns-agent record``. If ``devices`` or ``metrics`` is None, nothing of that kind is
    recorded."""

    out: Path
    devices: tuple[str, ...] | None  # empty: all devices
    metrics: tuple[str, ...] | None  # empty: all metrics
    table_format: str
    rotation: Rotation
    once: bool
    sensors: AgentOptions


def parse_names(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list, and return its names without duplicates, or no names for ``all``. Raises
    ValueError."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if names == (ALL,):
        return ()
    if "" in names or ALL in names:
        raise ValueError(f"must be names separated by commas, or '{ALL}', not {text!r}")
    return names


def parse_devices(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of devices, and return the kernel's names for them. Raises ValueError."""
    return tuple(dict.fromkeys(map(device_name, parse_names(text))))


def parse_metrics(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of metrics. Raises ValueError if a metric is unknown."""
    names = parse_names(text)
    for name in names:
        if name not in CATALOGUE:
            raise ValueError(f"unknown metric {name!r}; the metrics are: {', '.join(CATALOGUE)}")
    return names


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Record the kernel's disk counters and the agent's metrics in CSV files.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--out", required=True, type=Path, metavar="DIR", help="directory for the files; it is created if necessary")
    add(
        "--devices",
        type=argument_type(parse_devices),
        metavar="D,...|all",
        help="record the counters of these devices, named as in /proc/diskstats or by a path below /dev",
    )
    add(
        "--metrics",
        type=argument_type(parse_metrics),
        metavar="NAME,...|all",
        help="record these metrics of the agent in a file of their own",
    )
    add(
        "--interval",
        default=1.0,
        type=argument_type(parse_interval),
        metavar="S",
        help="seconds between rows, 0.1 to 3600 (default: 1)",
    )
    add("--once", action="store_true", help="append one row for each device, and exit")
    add(
        "--rotate",
        default=Rotation(),
        type=argument_type(parse_rotation),
        metavar=f"{DAY}|SIZE",
        help="begin a new file every day, or before a file exceeds a size such as 10M (default: never)",
    )
    add(
        "--format",
        default="lbdns",
        choices=tuple(FORMATS),
        help="format of the disk counters: lbdns, or 2014 for the format of the 2014 study (default: lbdns)",
    )
    add_sensor_options(add)
    add_log_options(add)
    add_version(add)
    return parser


def read_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> RecordOptions:
    """Return the options. If the arguments are invalid or contradict each other, the program exits with status 2."""
    if arguments.devices is None and arguments.metrics is None:
        parser.error("nothing to record; add --devices D,... (or --devices all), or --metrics NAME,...")
    try:
        file_name("mon_diskstats", arguments.devices or ())
        file_name("metrics", arguments.metrics or ())
    except ValueError as error:
        parser.error(str(error))
    return RecordOptions(
        out=arguments.out,
        devices=arguments.devices,
        metrics=arguments.metrics,
        table_format=arguments.format,
        rotation=arguments.rotate,
        once=arguments.once,
        sensors=AgentOptions(
            name=default_name(),
            interval=arguments.interval,
            gateway=arguments.gateway,
            status=status_page_url(arguments.server_status),
            cgroup=arguments.cgroup,
        ),
    )


def make_directory(path: Path) -> None:
    """Create the directory unless it exists. Raises ConfigError if that fails or if the directory is not writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigError(f"--out: {path}: not a directory") from None
    except OSError as error:
        raise ConfigError(f"--out: {path}: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError(f"--out: {path}: this user can't create files in this directory")


def make_tables(
    options: RecordOptions, tasks: SensorTasks, proc: str
) -> tuple[list[RecordedTable], MetricsSource | None]:
    """Return two values: the tables to record, and the source of the metrics. The source is None if no metric is
    recorded. Raises LbdnsError if the disk counters can't be read."""
    tables: list[RecordedTable] = []
    if options.devices is not None:
        disk_format = FORMATS[options.table_format]
        disks = DiskSource(KernelFile(f"{proc}/diskstats").read, options.devices, disk_format)
        disks.check()
        path = options.out / disk_format.file_name(options.devices)
        tables.append(RecordedTable(disks, CsvFile(path, options.rotation)))
    metrics = None
    if options.metrics is not None:
        metrics = MetricsSource(options.metrics or tuple(CATALOGUE), options.sensors, tasks, proc)
        path = options.out / file_name("metrics", options.metrics)
        tables.append(RecordedTable(metrics, CsvFile(path, options.rotation)))
    return tables, metrics


def run(options: RecordOptions, proc: str = "/proc", clock: Callable[[], float] = time.time) -> int:
    """Record, and return the exit status. Raises LbdnsError if recording can't start."""
    signals = SignalPipe()
    try:
        tasks = SensorTasks(signals.fd)
        tables, metrics = make_tables(options, tasks, proc)
        make_directory(options.out)
        open_files(tables)
        interval = options.sensors.interval
        if not options.once:
            log_start([table.file.path for table in tables], interval)
        first = metrics.begin() if metrics is not None else time.monotonic()
        if not options.once:
            return Recorder(tables, interval, signals, tasks, clock).run(first)
        if not tasks.wait(first):  # no signal has arrived
            record_once(tables, clock)
        return 0
    finally:
        signals.close()


def main(argv: Sequence[str]) -> int:
    """Run ``lbdns-agent record``. Return 0 on success, 1 on a runtime failure, or 2 on invalid arguments."""
    parser = build_parser()
    try:
        options = read_options(parser, arguments := parser.parse_args(argv))
    except SystemExit as ended:  # argparse has printed why
        return int(ended.code or 0)
    log.set_up(arguments.log_format, arguments.log_level)
    try:
        return run(options)
    except LbdnsError as error:
        return print_error(PROG, error)
    finally:
        log.finish()
