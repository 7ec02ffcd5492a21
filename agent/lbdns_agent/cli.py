"""The lbdns-agent command: parses the arguments, then runs the agent, prints a single sample (``--once``), or passes
the arguments to the subcommand ``record`` or ``plot``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from lbdns_agent.agent_loop import run
from lbdns_agent.agent_options import (
    AUTO,
    OFF,
    AgentOptions,
    check_alarm_metrics,
    check_report_size,
    default_name,
    parse_address,
    parse_interval,
    parse_name,
    parse_pool,
    parse_port,
)
from lbdns_agent.alarm_conditions import DEFAULT_CONDITIONS, parse_alarm_condition
from lbdns_agent.bus.bus_options import BusOptions
from lbdns_agent.collector_status import parse_collector_url
from lbdns_agent.command_options import (
    add_log_options,
    add_sensor_options,
    add_version,
    argument_type,
    print_error,
    status_page_url,
)
from lbdns_agent.configuration.config_file import DEFAULT_PATH, NO_CONFIG, AgentConfig, merge
from lbdns_agent.signing_key import only_host
from lbdns_agent.single_sample import sample_as_json, sample_as_table, take_single_sample
from lbdns_agent.webserver.web_server_options import WEB_SERVER_METRICS
from lbdns_shared import log
from lbdns_shared.bus_url import parse_bus_url
from lbdns_shared.endpoint import REPORT_PORT, parse_endpoint
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_shared.metric_catalogue import CATALOGUE
from lbdns_shared.report import MAX_ADDRESSES

EXAMPLES = """examples:
  lbdns-agent --collector ns1.example.net --collector ns2.example.net --key-file /etc/lbdns/agent.key
  lbdns-agent --collector 192.0.2.53 --key-file /etc/lbdns/agent.key --pool web       join pool web
  lbdns-agent --bus tls://web-1@nats.example.net --bus-password-file bus.password --key-file /etc/lbdns/agent.key
  lbdns-agent --config /etc/lbdns/agent.conf  take options and metrics of your own from a file
  lbdns-agent --agent-check 7778              answer HAProxy's agent checks, without a collector
  lbdns-agent --serve 5555                    serve this host's figures at http://127.0.0.1:5555/
  lbdns-agent --once                          show what this host would report
  lbdns-agent --collector 192.0.2.53 --server-status http://127.0.0.1:8080/server-status --alarm 'run_queue>100'
  lbdns-agent record --help                   record disk counters and metrics in CSV files
  lbdns-agent plot --help                     draw what 'lbdns-agent record' recorded
"""
LOOPBACK: Final = "127.0.0.1"  # only programs on this host reach it
#: Subcommand -> the module that defines its function ``main``; it is imported only if the subcommand is used
SUBCOMMANDS: Final = {"record": "lbdns_agent.recorder.record_command", "plot": "lbdns_agent.recorder.plot_command"}


def build_parser() -> argparse.ArgumentParser:
    """Return the command-line parser, which defines all options and their defaults."""
    parser = argparse.ArgumentParser(
        prog="lbdns-agent",
        description="Measure this host and send reports to the lbdns collectors.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_report_options(parser.add_argument)
    add_sensor_options(parser.add_argument)
    _add_bus_options(parser.add_argument)
    _add_server_options(parser.add_argument)
    add = parser.add_argument
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="read options and metrics from this file; the command line takes precedence "
        f"(default: {DEFAULT_PATH}, if it exists)",
    )
    add("--once", action="store_true", help="print one sample and send nothing")
    add("--json", action="store_true", help="with --once: print the sample as JSON")
    add_log_options(add)
    add_version(add)
    return parser


def _add_report_options(add: Callable[..., Any]) -> None:
    add(
        "--collector",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        type=argument_type(lambda text: parse_endpoint(text, REPORT_PORT)),
        help=f"send reports to this collector; may be repeated (default port: {REPORT_PORT})",
    )
    add(
        "--interval",
        default=1.0,
        type=argument_type(parse_interval),
        metavar="S",
        help="seconds between reports, 0.1 to 3600 (default: 1)",
    )
    add(
        "--name",
        type=argument_type(parse_name),
        metavar="HOST",
        help="host name to report as (default: the only host in the key file, or else this host's short name)",
    )
    add("--key-file", type=Path, metavar="FILE", help="sign reports with the key in this file (default: no signature)")
    add(
        "--pool",
        type=argument_type(parse_pool),
        metavar="POOL",
        help="the pool that this host joins, if the collector's configuration permits it "
        "(default: the pool that accepts this host's name, if there is only one)",
    )
    add(
        "--address",
        action="append",
        default=[],
        metavar="ADDRESS",
        type=argument_type(parse_address),
        help="address of this host in the pool that it joins; the agent also sends its reports from this address; may "
        f"be repeated up to {MAX_ADDRESSES} times (default: the address from which the collector receives the reports)",
    )
    add(
        "--status-url",
        action="append",
        default=[],
        metavar="URL",
        type=argument_type(parse_collector_url),
        help="URL of the collector's HTTP interface, such as http://ns1.example.net:8053; the agent asks there about "
        "every 30 s whether the collector accepts its reports, and logs the reason if it does not; may be repeated "
        "(default: no check)",
    )
    add(
        "--metrics",
        default="standard",
        choices=("standard", "all"),
        help="metrics to report: all adds free memory, paging, load averages, the use of CPU time and the number of "
        "tasks (default: standard)",
    )
    add(
        "--alarm",
        action="append",
        default=[],
        metavar="CONDITION|off",
        help="send alarms while this condition holds: METRIC[/cpu] > NUMBER (or >=, <, <=); may be repeated  "
        f"(default: {', '.join(condition.replace(' ', '') for condition in DEFAULT_CONDITIONS)})",
    )


def _add_bus_options(add: Callable[..., Any]) -> None:
    add(
        "--bus",
        action="append",
        default=[],
        metavar="URL",
        type=argument_type(parse_bus_url),
        help="publish reports to this NATS server, such as nats://nats.example.net or tls://USER@nats.example.net; "
        "may be repeated for the other servers of the same bus (default: no bus)",
    )
    add(
        "--bus-password-file",
        type=Path,
        metavar="FILE",
        help="the password of the user in the URL, or a token if the URL contains no user",
    )
    add(
        "--bus-nkey",
        type=Path,
        metavar="FILE",
        help="the seed of the user's nkey, which signs instead of a password (needs lbdns-agent[nkeys])",
    )
    add(
        "--bus-tls-ca",
        type=Path,
        metavar="FILE",
        help="certificates of the authorities that sign the NATS servers' certificates (default: those of the system)",
    )


def _add_server_options(add: Callable[..., Any]) -> None:
    add(
        "--agent-check",
        type=argument_type(parse_port),
        metavar="[ADDRESS:]PORT",
        help="answer HAProxy's agent checks on this TCP port with this host's free capacity as the weight "
        "(default: off; without ADDRESS: on all addresses)",
    )
    add(
        "--agent-check-file",
        type=Path,
        metavar="FILE",
        help="while this file contains 'maint', 'drain' or 'ready', answer agent checks with that word",
    )
    add(
        "--serve",
        type=argument_type(lambda text: parse_port(text, LOOPBACK)),
        metavar="[ADDRESS:]PORT",
        help="serve the figures of the last sample as a text page over HTTP on this port, including those that only "
        f"--metrics all reports (default: off; without ADDRESS: on {LOOPBACK})",
    )


def read_options(arguments: argparse.Namespace, config: AgentConfig = NO_CONFIG) -> AgentOptions:
    """Return the options. Raises ConfigError if the arguments are invalid or contradict each other."""
    if arguments.json and not arguments.once:
        raise ConfigError("--json needs --once")
    if not (arguments.collector or arguments.bus or arguments.agent_check or arguments.serve or arguments.once):
        raise ConfigError(
            "no collector given; add one with --collector HOST[:PORT] or a bus with --bus URL, or use --agent-check "
            "PORT to answer HAProxy, --serve PORT to serve a page, or --once to print a sample"
        )
    bus = _read_bus_options(arguments)
    if arguments.agent_check_file and not arguments.agent_check:
        raise ConfigError("--agent-check-file needs --agent-check")
    if len(arguments.address) > MAX_ADDRESSES:
        raise ConfigError(f"--address can be given at most {MAX_ADDRESSES} times")
    alarms = arguments.alarm or list(DEFAULT_CONDITIONS)
    if OFF in alarms and len(alarms) > 1:
        raise ConfigError("--alarm off can't be combined with alarm conditions")
    try:
        own = WEB_SERVER_METRICS[config.web_server.kind] if config.web_server else ()
        known = [*CATALOGUE, *own, *(metric.name for metric in config.metrics)]
        conditions = tuple(parse_alarm_condition(text, known) for text in alarms if text != OFF)
    except ValueError as error:
        raise ConfigError(f"argument --alarm: {error}") from None
    try:
        name = arguments.name or only_host(arguments.key_file) or parse_name(default_name())
    except ValueError as error:
        raise ConfigError(f"set a host name with --name, because this host's own name can't be used: {error}") from None
    options = AgentOptions(
        name=name,
        collectors=tuple(dict.fromkeys(arguments.collector)),
        interval=arguments.interval,
        gateway=arguments.gateway,
        status=None if config.web_server else status_page_url(arguments.server_status),
        key_file=arguments.key_file,
        cgroup=arguments.cgroup,
        alarms=conditions,
        collector_urls=tuple(dict.fromkeys(arguments.status_url)),
        pool=arguments.pool or "",
        agent_check=arguments.agent_check,
        agent_check_file=arguments.agent_check_file,
        serve=arguments.serve,
        addresses=tuple(dict.fromkeys(arguments.address)),
        finds_web_server=arguments.server_status == AUTO,
        web_server=config.web_server,
        metrics=config.metrics,
        bus=bus,
        all_metrics=arguments.metrics == "all",
    )
    check_alarm_metrics(options)
    check_report_size(options)
    return options


def _read_bus_options(arguments: argparse.Namespace) -> BusOptions:
    """Return the options for a bus. Raises ConfigError if they contradict each other."""
    servers = tuple(dict.fromkeys(arguments.bus))
    for option in ("--bus-password-file", "--bus-nkey", "--bus-tls-ca"):
        if getattr(arguments, option[2:].replace("-", "_")) and not servers:
            raise ConfigError(f"{option} needs --bus")
    if servers and not (arguments.key_file or arguments.once):
        raise ConfigError("--bus needs --key-file, because collectors accept only signed reports from a bus")
    if arguments.bus_password_file and any(server.password for server in servers):
        raise ConfigError("--bus-password-file can't be combined with a password in the URL of --bus")
    in_url = any(server.user or server.password for server in servers)
    if arguments.bus_nkey and (arguments.bus_password_file or in_url):
        raise ConfigError("--bus-nkey can't be combined with --bus-password-file or credentials in the URL of --bus")
    return BusOptions(servers, arguments.bus_password_file, arguments.bus_tls_ca, arguments.bus_nkey)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``lbdns-agent``. Return 0 on success, 1 on a runtime failure, or 2 on invalid arguments or key files."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        if words and words[0] in SUBCOMMANDS:
            subcommand: Callable[[Sequence[str]], int] = import_module(SUBCOMMANDS[words[0]]).main
            return subcommand(words[1:])
        return _run_agent(words)
    except BrokenPipeError:  # the reader of the standard output has gone, as in lbdns-agent --once | head -1
        # Discard the rest: the interpreter would try to write it when it ends, and print an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run_agent(words: Sequence[str]) -> int:
    parser = build_parser()
    try:
        arguments, config = merge(parser, words)
        options = read_options(arguments, config)
    except SystemExit as ended:  # argparse has printed why
        sys.stdout.flush()
        return int(ended.code or 0)
    except ConfigError as error:
        return print_error("lbdns-agent", error)
    log.set_up(arguments.log_format, "error" if arguments.once else arguments.log_level)
    try:
        if not arguments.once:
            return run(options, lambda: read_options(*merge(parser, words)))
        single = take_single_sample(options)
        print(sample_as_json(options, single, time.time()) if arguments.json else sample_as_table(options, single))
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt:  # during a single sample
        return 1
    except LbdnsError as error:
        return print_error("lbdns-agent", error)
    finally:
        log.finish()
