"""The program ``lbdns-sim``, which runs simulations and replays, and prints and saves the results."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from rich.console import Console

from lbdns.command_line.command_group import SuggestingGroup
from lbdns.command_line.run_command import run
from lbdns.policies import POLICIES
from lbdns_shared.errors import ConfigError
from lbdns_tools import __version__, plot_files
from lbdns_tools.progress_bar import count_bar
from lbdns_tools.sim import ablation_command, acceptance_command, live_recorder, simulation_output, simulation_plots
from lbdns_tools.sim.history_import import read_record
from lbdns_tools.sim.policy_replay import ReplayedPolicy, answered, replay
from lbdns_tools.sim.recording_format import Recording, event_line, header_line
from lbdns_tools.sim.scenario_files import read_score
from lbdns_tools.sim.simulation_jobs import SimulationJob, in_processes
from lbdns_tools.sim.simulation_options import run_options
from lbdns_tools.sim.simulation_presets import PRESETS, SimulationStudy
from lbdns_tools.sim.simulation_results import average_runs
from lbdns_tools.sim.simulation_study import RequestedStudy, make_study

#: The options whose values are those of a scenario's fields
FIELDS: Final = (
    "interval", "early", "loss", "dns_servers", "duration", "warm_up", "alarms", "surges", "other_work",
    "slowdowns", "max_speed_gain", "check",
)  # fmt: skip
WIDE: Final = 200  # columns of a table when standard output is not a terminal


@click.group(
    cls=SuggestingGroup,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND ...]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Without a command, lbdns-sim runs a simulation. "
    "Exit status: 0 on success, 1 on failure, 2 on invalid arguments.",
)
@run_options
@click.version_option(__version__, prog_name="lbdns-sim", message="%(prog)s %(version)s")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Simulate in virtual time how lbdns would balance load across your web servers.

    The simulator uses the policies and scores of the real DNS server. Web servers, agents, resolvers and clients are
    simulated. Results are averages over several seeds. A request fails if no response arrives within 10 s. The response
    time of a failed request counts as 10 s.

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
        if any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in options):
            raise click.UsageError(
                f"simulation options cannot be combined with the command '{ctx.invoked_subcommand}'", ctx
            )
    elif options["preset"] == "list":
        _list_presets()
    else:
        _check(options)
        _simulate(options)


command.add_command(live_recorder.command)
command.add_command(ablation_command.command)
command.add_command(acceptance_command.command)


def _check(options: Mapping[str, Any]) -> None:
    """Raise click.UsageError if options cannot be combined or if a required option is missing."""
    values = {param.opts[0]: options[param.name] for param in command.params if param.name in options}
    for one, other in (
        ("--json", "--csv"), ("--from", "--replay"), ("--servers", "--from"), ("--load", "--rate"),
        ("--preset", "--replay"), ("--load", "--replay"), ("--rate", "--replay"), ("--duration", "--replay"),
        ("--warm-up", "--replay"),
    ):  # fmt: skip
        if values[one] and values[other]:
            raise click.UsageError(f"{one} and {other} cannot be combined")
    for one, other, argument in (
        ("--record", "--from", "URL; see also 'lbdns-sim record --help'"),
        ("--pool", "--from", "URL; see also 'lbdns-sim record --help'"),
        ("--begin", "--replay", "history.db"),
        ("--end", "--replay", "history.db"),
        ("--plot-kind", "--plot", "FILE"),
    ):
        if values[one] is not None and values[other] is None:
            raise click.UsageError(f"{one} requires {other} {argument}")
    clients = options["clients"]
    if clients and (options["loads"] or options["rate"]) and all(c.kind == "closed" for c in clients):
        # Not an error, so that one command line works for several kinds of clients
        click.echo("--load and --rate have no effect on closed-loop clients, which wait for each response", err=True)
    if options["plot"] is not None:
        plot_files.check_file(options["plot"])


def _simulate(options: Mapping[str, Any]) -> None:
    recording = _recording(options)
    study = make_study(_requested(options, recording))
    real, replays = None, []
    if options["replay"] is not None:
        assert recording is not None
        real, replays = answered(recording), _replayed(recording, study)
    jobs = [
        SimulationJob(s, policy, seed)
        for s in study.scenarios
        for policy in study.policies
        for seed in range(1, study.seeds + 1)
    ]
    with count_bar(len(jobs), "runs") as on_done:
        results = in_processes(SimulationJob.run, jobs, options["processes"], on_done)
    cells = range(0, len(jobs), study.seeds)
    rows = [
        simulation_output.SimulationRow(jobs[at].scenario, average_runs(results[at : at + study.seeds])) for at in cells
    ]
    if options["plot"] is not None:
        if replays and options["plot_kind"] is None:
            figure = simulation_plots.replayed_shares(real, replays)
        else:
            points = {(s.load, s.rate, s.clients.count) for s in study.scenarios}
            kind = options["plot_kind"] or ("response" if len(points) > 1 else "herding")
            figure = simulation_plots.figure_of(kind, rows, [(jobs[at].scenario, results[at]) for at in cells])
        plot_files.save(figure, options["plot"])
    _print(options, study, rows, real, replays)


def _recording(options: Mapping[str, Any]) -> Recording | None:
    if options["replay"] is not None:
        return read_record(options["replay"], options["begin"], options["end"])
    if options["from_url"] is None:
        return None
    click.echo(f"Recording {options['from_url']} for {options['from_seconds']:g} s ...", err=True)
    recording = live_recorder.record_live(options["from_url"], options["pool"], options["from_seconds"])
    if options["record"] is not None:
        _write(options["record"], recording)
    return recording


def _write(path: Path, recording: Recording) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(header_line(recording.header))
            file.writelines(event_line(event, recording.members) for event in recording.events)
    except FileExistsError:
        raise ConfigError(f"--record: {path}: the file already exists; use another name") from None
    except OSError as error:
        raise ConfigError(f"--record: {path}: cannot write the file: {error.strerror}") from None


def _requested(options: Mapping[str, Any], recording: Recording | None) -> RequestedStudy:
    fields = {name: options[name] for name in FIELDS if options[name] not in (None, ())}
    if options["score"] is not None:
        fields["score"], fields["terms"] = read_score(options["score"])
    if outages := (*options["kill"], *options["hang"], *options["hide_status"]):
        fields["outages"] = outages
    requested = ("servers", "preset", "workloads", "loads", "rate", "clients", "policies", "seeds")
    return RequestedStudy(
        recording=recording,
        replays=options["replay"] is not None,
        fields=fields,
        **{name: options[name] for name in requested},
    )


def _replayed(recording: Recording, study: SimulationStudy) -> list[ReplayedPolicy]:
    """Replay the recording under all policies except the oracle.

    The oracle requires queue lengths, which recordings do not contain.
    """
    scenario = study.scenarios[0]
    policies = [policy for policy in study.policies if policy in POLICIES]
    return [replay(recording, policy, scenario.stale_after, scenario.min_usable) for policy in policies]


def _print(
    options: Mapping[str, Any],
    study: SimulationStudy,
    rows: Sequence[simulation_output.SimulationRow],
    real: ReplayedPolicy | None,
    replays: Sequence[ReplayedPolicy],
) -> None:
    if options["as_json"]:
        click.echo(json.dumps(simulation_output.as_json(rows, study.notes, real, replays), indent=2))
        return
    if options["as_csv"]:
        click.echo(simulation_output.as_csv(rows), nl=False)
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    for note in study.notes:
        console.print(note, style="dim", markup=False)
    if replays:
        simulation_output.show_replay(real, replays, console)
        console.print()
    simulation_output.show(rows, console)
    if any(row.cell.sites for row in rows):
        console.print()
        simulation_output.show_sites(rows, console)
    if any(row.cell.backup for row in rows):
        console.print()
        simulation_output.show_backup(rows, console)
    if options["plot"] is not None:
        console.print(f"plot: {options['plot']}", markup=False)


def _list_presets() -> None:
    width = max(map(len, PRESETS))
    for name, study in PRESETS.items():
        click.echo(f"{name:<{width}}  {study.sentence}")
        runs = len(study.scenarios) * len(study.policies) * study.seeds
        click.echo(f"{'':<{width}}  {', '.join(study.policies)}; {runs} runs")


def main() -> None:
    """Run the program ``lbdns-sim`` and exit with its status."""
    sys.exit(run(command, "lbdns-sim"))
