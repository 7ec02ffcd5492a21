"""lbdns-sim: arguments -> what to run -> figures and exit status, nothing else."""

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

from lbdns import __version__
from lbdns.cli import run
from lbdns.errors import ConfigError
from lbdns.policies import POLICIES
from lbdns.toml_table import nearest
from lbdns_tools import pictures
from lbdns_tools.sim import output, plots
from lbdns_tools.sim.history_record import read_record
from lbdns_tools.sim.listen import listen_for
from lbdns_tools.sim.options import run_options
from lbdns_tools.sim.presets import PRESETS, Study
from lbdns_tools.sim.progress import progress
from lbdns_tools.sim.recording import Recording, event_line, header_line
from lbdns_tools.sim.replay import Replayed, answered, replay
from lbdns_tools.sim.results import cell
from lbdns_tools.sim.runner import Job, run_jobs
from lbdns_tools.sim.scenario import Scenario
from lbdns_tools.sim.scores import read_score
from lbdns_tools.sim.study import Wanted, make_study

#: Imported when they are called: a run needs none of them
COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "record": ("lbdns_tools.sim.record", "Write down what a running lbdns hears and answers, to be replayed."),
    "acceptance": ("lbdns_tools.sim.acceptance", "Everything that policy best has to show: demand, figure, verdict."),
}
WIDE: Final = 200  # columns of a table that doesn't go to a terminal: nobody's window cuts it off


class _Commands(click.Group):
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
    cls=_Commands,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND ...]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 well, 1 failed while running, 2 bad arguments. Without a command it simulates.",
)
@run_options
@click.version_option(__version__, prog_name="lbdns-sim")
@click.pass_context
def command(ctx: click.Context, /, **said: Any) -> None:
    """See what lbdns would do for your web servers, in virtual time.

    Drives the policies, scores and rules of the real DNS server against simulated servers, agents, resolvers and
    clients. Figures are averages over the seeds; a response over 10 s, or none, counts as 10 s and as failed.

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
                raise click.UsageError(f"the options of a run can't stand before '{ctx.invoked_subcommand}'", ctx)
        return
    if said["preset"] == "list":
        _list_presets()
        return
    _simulate(said)


def _simulate(said: Mapping[str, Any]) -> None:
    _check(said)
    recording = _recording(said)
    study = make_study(_wanted(said, recording))
    real: Replayed | None = None
    replays: list[Replayed] = []
    if said["replay"] is not None:
        assert recording is not None
        real, replays = _replayed(recording, study)
    jobs = [
        Job(s, policy, seed) for s in study.scenarios for policy in study.policies for seed in range(1, study.seeds + 1)
    ]
    with progress(len(jobs)) as on_done:
        results = run_jobs(jobs, said["processes"], on_done)
    rows = [
        output.Row(jobs[at].scenario, cell(results[at : at + study.seeds])) for at in range(0, len(jobs), study.seeds)
    ]
    if said["plot"] is not None:
        if replays and said["plot_kind"] is None:
            plots.draw_replay(said["plot"], real, replays)
        else:
            first = [(jobs[at].scenario, results[at]) for at in range(0, len(jobs), study.seeds)]
            plots.draw(said["plot"], said["plot_kind"] or _kind(study.scenarios), rows, first)
    _print(said, study, rows, real, replays)


def _check(said: Mapping[str, Any]) -> None:
    """What can't stand together. Raises click.UsageError."""
    for one, other in (
        ("as_json", "as_csv"), ("from_url", "replay"), ("servers", "from_url"), ("load", "rate"), ("preset", "replay"),
        ("load", "replay"), ("rate", "replay"), ("duration", "replay"), ("warm_up", "replay"),
    ):  # fmt: skip
        if said[one] and said[other]:
            raise click.UsageError(f"{_option(one)} and {_option(other)} can't stand together")
    for one in ("record", "pool"):
        if said[one] is not None and said["from_url"] is None:
            raise click.UsageError(f"{_option(one)} needs --from URL; or see 'lbdns-sim record --help'")
    for one in ("begin", "end"):
        if said[one] is not None and said["replay"] is None:
            raise click.UsageError(f"{_option(one)} needs --replay history.db")
    if said["clients"] and (said["load"] or said["rate"]) and all(c.kind == "closed" for c in said["clients"]):
        # One command line for several kinds of clients is handy, so this is no error
        click.echo("--load and --rate mean nothing to closed clients: each sends when it has its response", err=True)
    if said["plot_kind"] is not None and said["plot"] is None:
        raise click.UsageError("--plot-kind needs --plot FILE")
    if said["plot"] is not None:
        pictures.check_file(said["plot"])


def _option(name: str) -> str:
    return {"as_json": "--json", "as_csv": "--csv", "from_url": "--from"}.get(name, f"--{name.replace('_', '-')}")


def _recording(said: Mapping[str, Any]) -> Recording | None:
    if said["replay"] is not None:
        return read_record(said["replay"], said["begin"], said["end"])
    if said["from_url"] is None:
        return None
    click.echo(f"listening to {said['from_url']} for {said['from_seconds']:g} s ...", err=True)
    recording = listen_for(said["from_url"], said["pool"], said["from_seconds"])
    if said["record"] is not None:
        _write(said["record"], recording)
    return recording


def _write(path: Path, recording: Recording) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(header_line(recording.header))
            file.writelines(event_line(event, recording.members) for event in recording.events)
    except FileExistsError:
        raise ConfigError(f"--record: {path}: is there already; take another name") from None
    except OSError as error:
        raise ConfigError(f"--record: {path}: can't be written: {error.strerror}") from None


def _wanted(said: Mapping[str, Any], recording: Recording | None) -> Wanted:
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
    return Wanted(
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


def _replayed(recording: Recording, study: Study) -> tuple[Replayed | None, list[Replayed]]:
    """The oracle looks into servers, of which a record has only reports: it is simulated, and not replayed."""
    scenario = study.scenarios[0]
    policies = [policy for policy in study.policies if policy in POLICIES]
    found = [replay(recording, policy, scenario.stale_after, scenario.min_usable) for policy in policies]
    return answered(recording), found


def _kind(scenarios: Sequence[Scenario]) -> str:
    points = {(s.load, s.rate, s.clients.count) for s in scenarios}
    return "response" if len(points) > 1 else "herding"


def _print(
    said: Mapping[str, Any],
    study: Study,
    rows: Sequence[output.Row],
    real: Replayed | None,
    replays: Sequence[Replayed],
) -> None:
    if said["as_json"]:
        click.echo(json.dumps(output.as_json(rows, study.notes, real, replays), indent=2))
        return
    if said["as_csv"]:
        click.echo(output.as_csv(rows), nl=False)
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    for note in study.notes:
        console.print(note, style="dim", markup=False)
    if replays:
        output.show_replay(real, replays, console)
        console.print()
    output.show(rows, console)
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
