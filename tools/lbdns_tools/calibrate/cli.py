"""The command line of lbdns-calibrate: parses the options, selects a simulated or live farm, and prints the result."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar, cast

import click

from lbdns.client.server_location import http_location
from lbdns.command_line.common_options import config_option
from lbdns.command_line.run_command import run
from lbdns.scores import SCORES
from lbdns_shared.errors import ConfigError
from lbdns_tools import __version__
from lbdns_tools.calibrate.calibration import Calibration, Measure, Method, calibrate, trials_of
from lbdns_tools.calibrate.calibration_output import as_json, as_text, as_toml
from lbdns_tools.calibrate.calibration_trial import TrialFarm
from lbdns_tools.calibrate.live_configuration import LiveConfiguration
from lbdns_tools.calibrate.live_farm import LiveFarm
from lbdns_tools.calibrate.simulated_trials import SimulatedTrials
from lbdns_tools.progress_bar import count_bar
from lbdns_tools.sim.scenario_parsers import parse_clients, parse_servers, parse_workloads
from lbdns_tools.sim.simulation_jobs import usable_processors
from lbdns_tools.sim.simulation_scenario import Scenario

T = TypeVar("T")

NAME: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
EPILOG: Final = """\b
Examples:
  lbdns-calibrate --simulate --servers 1.1x1,0.7x1,2x2
  lbdns-calibrate --simulate --servers H10 --clients closed:30:30 --name mine
  lbdns-calibrate -c /etc/lbdns/lbdns.toml --load-command 'ab -n 20000 -c 20 http://best.hobbit/'

For each trial on a live farm, lbdns-calibrate changes FILE and makes the server reload it. At the end, and also after
Ctrl-C, lbdns-calibrate restores FILE from the copy FILE.before-calibration. The load command must look up names
repeatedly and exit on its own.

Exit status: 0 on success, 1 if no metric outperforms round robin or the farm can't be measured, 2 on invalid
arguments."""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--simulate", is_flag=True, help="Calibrate on a simulated farm instead of the live farm in FILE.")
@click.option(
    "--servers",
    default="T3",
    show_default=True,
    help="Simulated servers: a list SPEEDxCORES,... or a named farm (T3, H10 or U10).",
)
@click.option(
    "--workload", default="mix", show_default=True, help="Simulated workload: html, cgi, mix, lognormal or page."
)
@click.option(
    "--clients", default="caches:20", show_default=True, help="Simulated clients: closed:N[:RESOLVE_S] or caches:N."
)
@click.option(
    "--load", default=0.7, show_default=True, type=click.FloatRange(0.01, 10),
    help="Load from simulated caches:N clients, as a fraction of the farm's capacity.",
)  # fmt: skip
@click.option(
    "--duration", default=120.0, show_default=True, type=click.FloatRange(1, 1e6),
    help="Length of each simulated run in seconds.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, 256),
    help="Number of simulations that run in parallel. Default: one per processor.",
)  # fmt: skip
@config_option
@click.option("--control", type=click.Path(path_type=Path), help="Path of the live server's control socket.")
@click.option("--url", help="URL of the live server's HTTP interface, such as http://127.0.0.1:8053.")
@click.option("--load-command", help="Command that requests pages from the live farm for a while and then exits.")
@click.option(
    "--settle", default=5.0, show_default=True, type=click.FloatRange(0, 3600),
    help="Seconds from each reload of the live server to the start of the load command.",
)  # fmt: skip
@click.option(
    "--metric", "metrics", multiple=True,
    help="Use only this metric (can be repeated). Default: every metric that all members report.",
)  # fmt: skip
@click.option("--method", default="gain", show_default=True, type=click.Choice(["gain", "1999"]),
              help="How to weight metrics: by gain over round robin (gain) or by absolute performance "
                   "(1999).")  # fmt: skip
@click.option("--by", "measure", type=click.Choice(["throughput", "response"]),
              help="Figure to optimise. Default: throughput, or response if the clients are caches.")  # fmt: skip
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1, 1000),
    help="Number of times to run all trials. On a simulated farm, round N uses seed N.",
)  # fmt: skip
@click.option("--name", default="calibrated", show_default=True, help="Name of the new score.")
@click.option("--json", "json_output", is_flag=True, help="Print all figures as JSON.")
@click.version_option(__version__, prog_name="lbdns-calibrate", message="%(prog)s %(version)s")
def command(
    simulate: bool, servers: str, workload: str, clients: str, load: float, duration: float, processes: int | None,
    config: Path, control: Path | None, url: str | None, load_command: str | None, settle: float,
    metrics: tuple[str, ...], method: str, measure: str | None, rounds: int, name: str, json_output: bool,
) -> None:  # fmt: skip
    """Compute a score's weights and limits for a particular farm.

    lbdns-calibrate measures the farm's performance with each metric alone as the score, and computes weights from the
    results. The command prints a [score.NAME] table for the configuration file, and compares the new score with the
    score "thesis" and with round robin.
    """
    if not NAME.match(name) or name in SCORES:
        raise click.BadParameter(
            f"{name!r}: use only letters, digits, - and _; 'thesis' is reserved", param_hint="--name"
        )
    farm: TrialFarm
    if simulate:
        scenario = Scenario(
            _parsed("--servers", parse_servers, servers),
            workload=_parsed("--workload", parse_workloads, workload)[0],
            clients=_parsed("--clients", parse_clients, clients), load=load, duration=duration,
        )  # fmt: skip
        farm = SimulatedTrials(scenario, processes or usable_processors())
        waits = scenario.clients.kind == "closed"
        how = f"a simulated farm: {servers}, workload {workload}, clients {clients}" + (
            "" if waits else f", load {load:g}"
        )
        measure = measure or ("throughput" if waits else "response")
    else:
        if load_command is None:
            raise click.UsageError("add --load-command 'ab ...' for a live farm, or --simulate for a simulated farm")
        live = LiveConfiguration(config, control)
        farm = LiveFarm(live, http_location(url, live.path), load_command, settle)
        how, measure = f"the live farm in {config}, under load from {load_command!r}", measure or "throughput"
    found = _calibrate(farm, metrics, cast(Method, method), cast(Measure, measure), rounds)
    if json_output:
        click.echo(json.dumps(as_json(found, name), indent=2))
        return
    click.echo(as_text(found), err=True)
    click.echo(as_toml(found, name, how), nl=False)


def _calibrate(farm: TrialFarm, metrics: Sequence[str], method: Method, measure: Measure, rounds: int) -> Calibration:
    known = farm.metrics()
    for metric in metrics:
        if metric not in known:
            raise ConfigError(
                f"--metric {metric}: not every member reports this metric, or the catalogue does not specify whether "
                f"low or high values are better; choose from {', '.join(known)}"
            )
    tried = list(dict.fromkeys(metrics)) or list(known)
    with count_bar(trials_of(tried) * rounds, "trials") as advance:
        return calibrate(farm, tried, method, measure, rounds, lambda: advance(""))


def _parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def main() -> None:
    """Run the program ``lbdns-calibrate`` and exit with its status."""
    sys.exit(run(command, "lbdns-calibrate"))
