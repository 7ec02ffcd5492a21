"""The command ``lbdns-agent plot``: reads recorded files, and plots them in a single picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lbdns_agent.command_options import add_version, argument_type, print_error
from lbdns_agent.recorder import chart_picture
from lbdns_agent.recorder.disk_source import device_name
from lbdns_agent.recorder.recorded_charts import busiest, charts
from lbdns_agent.recorder.recorded_file import RecordedRows, read_files
from lbdns_shared.errors import ConfigError, LbdnsError

PROG: Final = "lbdns-agent plot"
EXAMPLES: Final = """examples:
  lbdns-agent plot diskstats_sda.csv                         draws diskstats_sda.png
  lbdns-agent plot diskstats_sda.*csv metrics.csv --out night.svg
  lbdns-agent plot diskstats.csv --devices sda,sdb
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Plot files recorded by 'lbdns-agent record' as one picture (needs lbdns-agent[plot]).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("files", nargs="+", type=Path, metavar="FILE", help="recorded files; they share one time axis")
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="picture to write; its name must end in .png, .svg or .pdf (default: the first file's name with .png)",
    )
    add(
        "--devices",
        type=argument_type(lambda text: [device_name(name) for name in text.split(",")]),
        metavar="D,...",
        help="draw only these devices (default: the eight that transferred the most)",
    )
    add_version(add)
    return parser


def select_devices(rows: RecordedRows, requested: Sequence[str] | None) -> list[str]:
    """Return the devices to draw. Raises ConfigError if a requested device is not in the files. Pure."""
    if requested is None:
        return busiest(rows.disks)
    unknown = [device for device in requested if device not in rows.disks]
    if unknown:
        known = ", ".join(rows.disks) or "no device"
        raise ConfigError(f"--devices: {', '.join(unknown)}: not in these files, which contain: {known}")
    return list(dict.fromkeys(requested))


def plot(files: Sequence[Path], out: Path, requested: Sequence[str] | None) -> list[str]:
    """Plot the data in ``files``, and save the picture as ``out``. Return notes on what the picture doesn't show.

    Raises LbdnsError.
    """
    chart_picture.check_picture(out)
    rows = read_files(files)
    devices = select_devices(rows, requested)
    try:
        drawn = charts(rows, devices)
    except ValueError as error:
        raise LbdnsError(f"{', '.join(map(str, files))}: {error}") from None
    chart_picture.draw(drawn, rows.zone, out)
    remarks = []
    if rows.skipped:
        remarks.append(f"{rows.skipped} malformed {'row' if rows.skipped == 1 else 'rows'} skipped")
    if requested is None and (others := [device for device in rows.disks if device not in devices]):
        remarks.append(f"not drawn: {', '.join(others)}; choose devices with --devices")
    return remarks


def main(argv: Sequence[str]) -> int:
    """Run ``lbdns-agent plot``. Return 0 on success, 1 on a runtime failure, or 2 on invalid arguments or files."""
    try:
        arguments = build_parser().parse_args(argv)
    except SystemExit as ended:  # argparse has printed why
        return int(ended.code or 0)
    out: Path = arguments.out or arguments.files[0].with_suffix(".png")
    try:
        for remark in plot(arguments.files, out, arguments.devices):
            print(f"{PROG}: {remark}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    except LbdnsError as error:
        return print_error(PROG, error)
    print(out)
    return 0
