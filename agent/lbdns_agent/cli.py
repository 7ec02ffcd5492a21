"""The command line of lbdns-agent: arguments -> options -> run -> exit status, and nothing else."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lbdns import __version__, log
from lbdns.endpoint import REPORT_PORT, parse_endpoint
from lbdns.errors import LbdnsError
from lbdns_agent import once
from lbdns_agent.metrics import METRICS
from lbdns_agent.options import OFF, Options, default_name, parse_gateway, parse_interval, parse_name
from lbdns_agent.overload import DEFAULT_CONDITIONS, parse_condition
from lbdns_agent.run import run
from lbdns_agent.webserver.url import DEFAULT_URL, parse_url

EXAMPLES = """examples:
  lbdns-agent --collector ns1.example.net --collector ns2.example.net --key-file /etc/lbdns/agent.key
  lbdns-agent --once                          show what this host would report
  lbdns-agent --collector 192.0.2.53 --server-status http://127.0.0.1:8080/server-status --alarm 'run_queue>100'
"""


def _reader(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """argparse shows the message of this exception only."""

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def build_parser() -> argparse.ArgumentParser:
    """Every option with its default and range."""
    parser = argparse.ArgumentParser(
        prog="lbdns-agent",
        description="Measures this host and reports to the collectors of lbdns.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--collector",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        type=_reader(lambda text: parse_endpoint(text, REPORT_PORT)),
        help=f"where reports go; may be given several times (port {REPORT_PORT})",
    )
    add("--interval", default=1.0, type=_reader(parse_interval), metavar="S", help="seconds, 0.1 to 3600 (1)")
    add("--name", type=_reader(parse_name), metavar="HOST", help="the member's name (the short host name)")
    add("--key-file", type=Path, metavar="FILE", help="the key to sign with; without one reports are unsigned")
    add(
        "--server-status",
        default=parse_url(DEFAULT_URL),
        type=_reader(lambda text: None if text == OFF else parse_url(text)),
        metavar="URL|off",
        help=f"the web server's status page ({DEFAULT_URL})",
    )
    add(
        "--gateway",
        default="auto",
        type=_reader(parse_gateway),
        metavar="auto|ADDRESS|off",
        help="whom to ping (auto: the default gateway)",
    )
    add(
        "--cgroup",
        default="auto",
        metavar="auto|off|PATH",
        help="whose limits the figures are measured against (auto: this process's, if it has a CPU quota)",
    )
    add(
        "--alarm",
        action="append",
        default=[],
        metavar="CONDITION|off",
        help="METRIC[/cpu] > NUMBER, also >=, <, <=; may be given several times "
        f"({', '.join(condition.replace(' ', '') for condition in DEFAULT_CONDITIONS)})",
    )
    add("--once", action="store_true", help="print one sample and send nothing")
    add("--json", action="store_true", help="with --once: as JSON")
    add("--log-format", default="text", choices=log.FORMATS, help="(text)")
    add("--log-level", default="info", choices=log.LEVELS, help="(info)")
    add("--version", action="version", version=f"lbdns-agent {__version__}")
    return parser


def read_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> Options:
    """What single arguments can't tell. Ends the program with exit status 2 for a wrong combination."""
    if arguments.json and not arguments.once:
        parser.error("--json goes with --once")
    if not arguments.collector and not arguments.once:
        parser.error("where to? Give at least one --collector HOST[:PORT], or --once to see a sample")
    alarms = arguments.alarm or list(DEFAULT_CONDITIONS)
    if OFF in alarms and len(alarms) > 1:
        parser.error("--alarm off doesn't go with other conditions")
    try:
        conditions = tuple(parse_condition(text, METRICS) for text in alarms if text != OFF)
    except ValueError as error:
        parser.error(f"argument --alarm: {error}")
    try:
        name = arguments.name or parse_name(default_name())
    except ValueError as error:
        parser.error(f"this host's name is no good, give one with --name: {error}")
    return Options(
        name=name,
        collectors=tuple(dict.fromkeys(arguments.collector)),
        interval=arguments.interval,
        gateway=arguments.gateway,
        status=arguments.server_status,
        key_file=arguments.key_file,
        cgroup=arguments.cgroup,
        alarms=conditions,
    )


def show_once(options: Options, as_json: bool) -> int:
    """Print one sample."""
    sample, span = once.take_one(options)
    print(once.as_json(options, sample, span, time.time()) if as_json else once.as_table(options, sample, span))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; its exit status: 0 well, 1 a failure while running, 2 bad arguments or key file."""
    parser = build_parser()
    try:
        arguments = parser.parse_args(argv)
        options = read_options(parser, arguments)
    except SystemExit as ended:  # argparse has said why
        return int(ended.code or 0)
    log.set_up(arguments.log_format, "error" if arguments.once else arguments.log_level)
    try:
        return show_once(options, arguments.json) if arguments.once else run(options)
    except KeyboardInterrupt:  # while a single sample is taken
        return 1
    except LbdnsError as error:
        print(f"lbdns-agent: {error}", file=sys.stderr)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
