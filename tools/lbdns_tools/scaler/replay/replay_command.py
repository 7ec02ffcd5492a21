"""The command ``lbdns-scaler replay``, which computes what a trace would have cost with each scaling policy."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from lbdns.config.toml_reader import read_toml
from lbdns.text.times import format_duration
from lbdns_shared.errors import ConfigError
from lbdns_tools import plot_files
from lbdns_tools.scaler.policies.policy_table import NEED_SETTINGS, POLICIES, read_policies
from lbdns_tools.scaler.policies.scaling_policy import ScalingPolicy
from lbdns_tools.scaler.replay import replay_output, replay_plots
from lbdns_tools.scaler.replay.demand_trace import DemandTrace
from lbdns_tools.scaler.replay.fluid_replay import replay
from lbdns_tools.scaler.replay.logged_demand import read_logged_demand
from lbdns_tools.scaler.replay.replay_options import replay_options, settings_of
from lbdns_tools.scaler.replay.replay_settings import make_policy
from lbdns_tools.scaler.replay.trace_file import read_demand_trace

WIDE: Final = 200  # columns of a table when standard output is not a terminal
MONDAY: Final = 1_704_067_200.0  # 2024-01-01T00:00Z, where traces begin whose times are not Unix times
LEAST_UNIX: Final = 1e8  # s; a smaller time counts from the start of the trace


@click.command(
    "replay",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 on success, 1 on failure, 2 on invalid arguments.",
)
@click.argument("path", metavar="TRACE", type=click.Path(path_type=Path))
@replay_options
def command(path: Path, **options: Any) -> None:
    """Compute what a trace of requests would have cost with each scaling policy.

    TRACE is a CSV file with the columns time_s and requests_per_s, or an access log (--access-log), or the built-in
    trace one-day. The default prices and speeds are those of a 2012 study. If times are not Unix times, the trace
    begins on a Monday at midnight UTC. Nothing is started or stopped.

    \b
    Examples:
      lbdns-scaler replay one-day --policy cpu,revenue,fixed
      lbdns-scaler replay day.csv --policy all --maximum 40 --plot day.svg
      lbdns-scaler replay access.log --access-log --service-time 0.02 --billing second --json
      lbdns-scaler trace --days 15 --seed 1 > days.csv
      lbdns-scaler replay days.csv --warm-up 14d --maximum 40
    """
    settings = settings_of(options)
    if options["plot"] is not None:
        plot_files.check_file(options["plot"])
    configured = _configured(options["config"])
    names = _names(options["policies"], configured)
    trace = _trace(path, options)
    results = [replay(trace, name, make_policy(name, settings, configured), settings) for name in names]
    if options["plot"] is not None:
        plot_files.save(replay_plots.demand_and_servers(results, settings.capacity), options["plot"])
    if options["as_json"]:
        click.echo(json.dumps(replay_output.as_json(results, trace, settings), indent=2))
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    replay_output.show(results, trace, settings, console)
    if options["plot"] is not None:
        console.print(f"plot: {options['plot']}", markup=False)


def _configured(path: Path | None) -> Mapping[str, ScalingPolicy]:
    """Return the policies that the configuration file describes. Other tables of the file are ignored."""
    if path is None:
        return {}
    root = read_toml(path)
    policies = read_policies(root)
    root.findings.raise_if_any()
    return policies


def _names(requested: Sequence[str], configured: Mapping[str, ScalingPolicy]) -> Sequence[str]:
    """Return the policies to replay. Raises ConfigError if the settings that a policy requires are missing."""
    if not requested:
        return [name for name in POLICIES if name not in NEED_SETTINGS or name in configured]
    for name in requested:
        if name in NEED_SETTINGS and name not in configured:
            raise ConfigError(f"--policy {name}: the policy requires settings; write [policy.{name}] in a file for -c")
    return requested


def _trace(path: Path, options: Mapping[str, Any]) -> DemandTrace:
    trace = read_logged_demand(path, options["period"]) if options["access_log"] else read_demand_trace(path)
    if not trace.requests:
        raise ConfigError(f"{path}: all rates are 0")
    length = trace.end - trace.begin
    if options["warm_up"] >= length:
        what = f"the warm-up ({format_duration(options['warm_up'])}) must be shorter than the trace"
        raise ConfigError(f"--warm-up: {what} ({format_duration(length)})")
    return trace if trace.begin >= LEAST_UNIX else trace.shifted(MONDAY - trace.begin // 86_400 * 86_400)
