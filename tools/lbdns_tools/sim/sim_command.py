"""The program ``lbdns-sim``: read the options, run the simulations and replays, print and save the results."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from rich.console import Console

from lbdns.command_line.run_command import run
from lbdns.policies import POLICIES
from lbdns.text.suggestions import nearest
from lbdns_shared.errors import ConfigError
from lbdns_tools import __version__, plot_files
from lbdns_tools.progress_bar import count_bar
from lbdns_tools.sim import simulation_output, simulation_plots
from lbdns_tools.sim.history_import import read_record
from lbdns_tools.sim.live_recorder import record_live
from lbdns_tools.sim.policy_replay import ReplayedPolicy, answered, replay
from lbdns_tools.sim.recording_format import Recording, event_line, header_line
from lbdns_tools.sim.simulation_jobs import SimulationJob, run_jobs
from lbdns_tools.sim.simulation_options import run_options
from lbdns_tools.sim.simulation_presets import PRESETS, SimulationStudy
from lbdns_tools.sim.simulation_results import average_runs
from lbdns_tools.sim.simulation_scenario import Scenario
from lbdns_tools.sim.simulation_score import read_score
from lbdns_tools.sim.simulation_study import RequestedStudy, make_study

#: Commands are imported only when they are called
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "record": ("lbdns_tools.sim.record_command", "Record the reports and answers of a running lbdns, for replays."),
    "acceptance": ("lbdns_tools.sim.acceptance_command", "Check policy best against its acceptance demands."),
}
WIDE: Final = 200  # columns of a table when standard output is not a terminal


class _SimulationCommands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            raise click.UsageError(f"there is no command {args[0]!r}{nearest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=_SimulationCommands,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND ...]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Without a command, lbdns-sim runs a simulation. Exit status: 0 success, 1 failure, 2 bad arguments.",
)
@run_options
@click.version_option(__version__, prog_name="lbdns-sim")
@click.pass_context
def command(ctx: click.Context, /, **said: Any) -> None:
    """Simulate what lbdns would do for your web servers, in virtual time.

    Run the policies and scores of the real DNS server with simulated web servers, agents, resolvers and clients.
    Results are averages over the seeds. A response after more than 10 s, or none, counts as 10 s and as failed.

    \b
    Examples:
      lbdns-sim --servers 1.1x1,0.7x1,2x2 --load 0.85 --policy best,round_robin,oracle
      lbdns-sim --servers U10 --workload mix --load 0.5,0.7,0.85,0.95 --plot loads.png
      lbdns-sim --servers web1=1x2,web2=2x4 --rate 120 --kill web1@60-90 --json
      lbdns-sim --preset list
      lbdns-sim --from http://127.0.0.1:8053 --surge 2@60-90
      lbdns-sim record http://127.0.0.1:8053 day.jsonl --seconds 86400
      lbdns-sim --replay day.jsonl --policy best,weighted
      lbdns-sim --replay /var/lib/lbdns/history.db:web --begin -10min
    """
    if ctx.invoked_subcommand is not None:
        for name in said:
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(
                    f"options of a simulation cannot precede the command '{ctx.invoked_subcommand}'", ctx
                )
        return
    if said["preset"] == "list":
        _list_presets()
        return
    _simulate(said)


def _simulate(said: Mapping[str, Any]) -> None:
    _check(said)
    recording = _recording(said)
    study = make_study(_wanted(said, recording))
    real: ReplayedPolicy | None = None
    replays: list[ReplayedPolicy] = []
    if said["replay"] is not None:
        assert recording is not None
        real, replays = _replayed(recording, study)
    jobs = [
        SimulationJob(s, policy, seed)
        for s in study.scenarios
        for policy in study.policies
        for seed in range(1, study.seeds + 1)
    ]
    with count_bar(len(jobs), "runs") as on_done:
        results = run_jobs(jobs, said["processes"], on_done)
    rows = [
        simulation_output.SimulationRow(jobs[at].scenario, average_runs(results[at : at + study.seeds]))
        for at in range(0, len(jobs), study.seeds)
    ]
    if said["plot"] is not None:
        if replays and said["plot_kind"] is None:
            simulation_plots.draw_replay(said["plot"], real, replays)
        else:
            first = [(jobs[at].scenario, results[at]) for at in range(0, len(jobs), study.seeds)]
            simulation_plots.draw(said["plot"], said["plot_kind"] or _kind(study.scenarios), rows, first)
    _print(said, study, rows, real, replays)


def _check(said: Mapping[str, Any]) -> None:
    """Raise click.UsageError if options exclude or require each other."""
    for one, other in (
        ("as_json", "as_csv"), ("from_url", "replay"), ("servers", "from_url"), ("load", "rate"), ("preset", "replay"),
        ("load", "replay"), ("rate", "replay"), ("duration", "replay"), ("warm_up", "replay"),
    ):  # fmt: skip
        if said[one] and said[other]:
            raise click.UsageError(f"{_option(one)} and {_option(other)} cannot be combined")
    for one in ("record", "pool"):
        if said[one] is not None and said["from_url"] is None:
            raise click.UsageError(f"{_option(one)} requires --from URL; see also 'lbdns-sim record --help'")
    for one in ("begin", "end"):
        if said[one] is not None and said["replay"] is None:
            raise click.UsageError(f"{_option(one)} requires --replay history.db")
    if said["clients"] and (said["load"] or said["rate"]) and all(c.kind == "closed" for c in said["clients"]):
        # Not an error, so that one command line works for several kinds of clients
        click.echo(
            "--load and --rate have no effect on closed clients: each sends a request when it has its response",
            err=True,
        )
    if said["plot_kind"] is not None and said["plot"] is None:
        raise click.UsageError("--plot-kind requires --plot FILE")
    if said["plot"] is not None:
        plot_files.check_file(said["plot"])


def _option(name: str) -> str:
    return {"as_json": "--json", "as_csv": "--csv", "from_url": "--from"}.get(name, f"--{name.replace('_', '-')}")


def _recording(said: Mapping[str, Any]) -> Recording | None:
    if said["replay"] is not None:
        return read_record(said["replay"], said["begin"], said["end"])
    if said["from_url"] is None:
        return None
    click.echo(f"recording {said['from_url']} for {said['from_seconds']:g} s ...", err=True)
    recording = record_live(said["from_url"], said["pool"], said["from_seconds"])
    if said["record"] is not None:
        _write(said["record"], recording)
    return recording


def _write(path: Path, recording: Recording) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(header_line(recording.header))
            file.writelines(event_line(event, recording.members) for event in recording.events)
    except FileExistsError:
        raise ConfigError(f"--record: {path}: exists already; use another name") from None
    except OSError as error:
        raise ConfigError(f"--record: {path}: cannot be written: {error.strerror}") from None


def _wanted(said: Mapping[str, Any], recording: Recording | None) -> RequestedStudy:
    fields = {
        name: said[name]
        for name in ("interval", "early", "loss", "dns_servers", "duration", "warm_up")
        if said[name] is not None
    }
    if said["score"] is not None:
        fields["score"], fields["terms"] = read_score(said["score"])
    if said["kill"] or said["hang"]:
        fields["outages"] = (*said["kill"], *said["hang"])
    if said["alarm"]:
        fields["alarms"] = said["alarm"]
    if said["surge"]:
        fields["surges"] = said["surge"]
    if said["other_work"]:
        fields["other_work"] = said["other_work"]
    return RequestedStudy(
        servers=said["servers"],
        preset=said["preset"],
        recording=recording,
        replays=said["replay"] is not None,
        workloads=said["workload"] or (),
        loads=said["load"] or (),
        rate=said["rate"],
        clients=said["clients"] or (),
        policies=said["policy"] or (),
        seeds=said["seeds"],
        fields=fields,
    )


def _replayed(recording: Recording, study: SimulationStudy) -> tuple[ReplayedPolicy | None, list[ReplayedPolicy]]:
    """Replay all policies but the oracle, which would have to look into the servers; a recording has only reports."""
    scenario = study.scenarios[0]
    policies = [policy for policy in study.policies if policy in POLICIES]
    found = [replay(recording, policy, scenario.stale_after, scenario.min_usable) for policy in policies]
    return answered(recording), found


def _kind(scenarios: Sequence[Scenario]) -> str:
    points = {(s.load, s.rate, s.clients.count) for s in scenarios}
    return "response" if len(points) > 1 else "herding"


def _print(
    said: Mapping[str, Any],
    study: SimulationStudy,
    rows: Sequence[simulation_output.SimulationRow],
    real: ReplayedPolicy | None,
    replays: Sequence[ReplayedPolicy],
) -> None:
    if said["as_json"]:
        click.echo(json.dumps(simulation_output.as_json(rows, study.notes, real, replays), indent=2))
        return
    if said["as_csv"]:
        click.echo(simulation_output.as_csv(rows), nl=False)
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    for note in study.notes:
        console.print(note, style="dim", markup=False)
    if replays:
        simulation_output.show_replay(real, replays, console)
        console.print()
    simulation_output.show(rows, console)
    if said["plot"] is not None:
        console.print(f"picture: {said['plot']}", markup=False)


def _list_presets() -> None:
    width = max(map(len, PRESETS))
    for name, preset in PRESETS.items():
        study = preset.study
        click.echo(f"{name:<{width}}  {preset.sentence}")
        runs = len(study.scenarios) * len(study.policies) * study.seeds
        click.echo(f"{'':<{width}}  {', '.join(study.policies)}; {runs} runs")


def main() -> None:
    """The entry point of the program ``lbdns-sim``."""
    sys.exit(run(command, "lbdns-sim"))
