"""lbdns-calibrate: arguments -> a farm, simulated or live -> a calibration, printed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, cast

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lbdns import __version__
from lbdns.cli import run
from lbdns.commands.options import config_option
from lbdns.commands.status import url_of
from lbdns.errors import ConfigError
from lbdns_tools.calibrate.calibration import calibrate, trials_of
from lbdns_tools.calibrate.live import LiveFarm
from lbdns_tools.calibrate.live_config import LiveConfig
from lbdns_tools.calibrate.show import as_json, as_text, as_toml
from lbdns_tools.calibrate.simulated import SimulatedFarm
from lbdns_tools.calibrate.trial import Farm
from lbdns_tools.calibrate.weighing import Measure, Method
from lbdns_tools.sim.runner import usable_processors
from lbdns_tools.sim.scenario import Scenario
from lbdns_tools.sim.spec import parse_clients, parse_servers, parse_workloads

T = TypeVar("T")

NAME: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
EPILOG: Final = """\b
Examples:
  lbdns-calibrate --simulate --servers 1.1x1,0.7x1,2x2
  lbdns-calibrate --simulate --servers H10 --clients closed:30:30 --name mine
  lbdns-calibrate -c /etc/lbdns/lbdns.toml --load-command 'ab -n 20000 -c 20 http://best.hobbit/'

On a live farm every trial is set by writing FILE and telling the server to read it again. FILE is put back at the end,
also after Ctrl-C; what it was stands in FILE.before-calibration until then. The load command has to look names up again
and again, and to end by itself.

Exit status: 0 well, 1 when no metric beats round robin or the farm can't be measured, 2 for bad arguments."""


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--simulate", is_flag=True, help="On a simulated farm, instead of the live one of FILE.")
@click.option("--servers", default="T3", show_default=True, help="Simulated: SPEEDxCORES,... or T3, H10, U10.")
@click.option("--workload", default="mix", show_default=True, help="Simulated: html, cgi, mix or lognormal.")
@click.option("--clients", default="caches:20", show_default=True, help="Simulated: closed:N[:RESOLVE_S] or caches:N.")
@click.option("--load", default=0.7, show_default=True, type=click.FloatRange(0.01, 10), help="Simulated: for caches.")
@click.option("--duration", default=120.0, show_default=True, type=click.FloatRange(1, 1e6), help="Simulated: s a run.")
@click.option("--processes", type=click.IntRange(1, 256), help="Simulated: runs side by side; default: all processors.")
@config_option
@click.option("--control", type=click.Path(path_type=Path), help="Live: the server's control socket.")
@click.option("--url", help="Live: where the server's HTTP is, such as http://127.0.0.1:8053.")
@click.option("--load-command", help="Live: a command that asks for pages and ends by itself.")
@click.option(
    "--settle", default=5.0, show_default=True, type=click.FloatRange(0, 3600), help="Live: s before the load."
)
@click.option(
    "--metric", "metrics", multiple=True, help="Only this one; may be repeated. Default: all that are reported."
)
@click.option("--method", default="gain", show_default=True, type=click.Choice(["gain", "1999"]),
              help="Weights in proportion to the gain over round robin, or to all that is achieved.")  # fmt: skip
@click.option("--by", "measure", type=click.Choice(["throughput", "response"]),
              help="What is to be gained. Default: throughput; response for clients that don't wait.")  # fmt: skip
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1, 1000), help="Of all trials; seeds 1, 2, ..."
)
@click.option("--name", default="calibrated", show_default=True, help="What the new score is called.")
@click.option("--json", "json_output", is_flag=True, help="Print all figures as JSON.")
@click.version_option(__version__, prog_name="lbdns-calibrate")
def command(
    simulate: bool, servers: str, workload: str, clients: str, load: float, duration: float, processes: int | None,
    config: Path, control: Path | None, url: str | None, load_command: str | None, settle: float,
    metrics: tuple[str, ...], method: str, measure: str | None, rounds: int, name: str, json_output: bool,
) -> None:  # fmt: skip
    """Find weights and limits of a score for a farm.

    Lets each metric decide alone and measures what the farm achieves, weighs the metrics by that, prints a [score.NAME]
    table for the configuration, and compares the new score with "thesis" and with round robin.
    """
    if not NAME.match(name) or name == "thesis":
        raise click.BadParameter(f"{name!r}: take letters, digits, - and _, and not 'thesis'", param_hint="--name")
    farm: Farm
    if simulate:
        scenario = Scenario(
            _parsed("--servers", parse_servers, servers),
            workload=_parsed("--workload", parse_workloads, workload)[0],
            clients=_parsed("--clients", parse_clients, clients),
            load=load,
            duration=duration,
        )
        farm = SimulatedFarm(scenario, processes or usable_processors())
        waits = scenario.clients.kind == "closed"
        how = f"a simulated farm: {servers}, workload {workload}, clients {clients}" + (
            "" if waits else f", load {load:g}"
        )
        measure = measure or ("throughput" if waits else "response")
    else:
        if load_command is None:
            raise click.UsageError("a live farm needs --load-command 'ab ...'; or say --simulate")
        live = LiveConfig(config, control)
        farm = LiveFarm(live, url or url_of(live.path), load_command, settle, seed=1)
        how, measure = f"the live farm of {config}, under: {load_command!r}", measure or "throughput"
    _run(farm, metrics, cast(Method, method), cast(Measure, measure), rounds, name, how, json_output)


def _run(
    farm: Farm, metrics: tuple[str, ...], method: Method, measure: Measure, rounds: int, name: str, how: str, js: bool
) -> None:
    known = farm.metrics()
    for metric in metrics:
        if metric not in known:
            raise ConfigError(
                f"--metric {metric}: not all members report it, or no way is better; known: {', '.join(known)}"
            )
    tried = list(dict.fromkeys(metrics)) or list(known)
    console = Console(stderr=True)
    columns = (TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("trials", total=trials_of(tried) * rounds)
        found = calibrate(farm, tried, method, measure, rounds, lambda: progress.advance(task))
    if js:
        click.echo(json.dumps(as_json(found, name), indent=2))
        return
    click.echo(as_text(found), err=True)
    click.echo(as_toml(found, name, how), nl=False)


def _parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def main() -> None:
    """The entry point of the program ``lbdns-calibrate``."""
    sys.exit(run(command, "lbdns-calibrate"))
