"""lbdns-lab: arguments -> which study on which farm -> report and exit status, nothing else."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from lbdns import __version__
from lbdns.cli import run as run_command
from lbdns.errors import ConfigError, LbdnsError
from lbdns_tools import installed
from lbdns_tools.lab import runner, traces_left
from lbdns_tools.lab.ending import ends_once
from lbdns_tools.lab.farm import NAMES, ZONE, Farm
from lbdns_tools.lab.farm_file import beyond, read_farm
from lbdns_tools.lab.lab import Lab
from lbdns_tools.lab.options import FARM_FILE, settings_of, study_options
from lbdns_tools.lab.presets.preset import Preset
from lbdns_tools.lab.presets.table import PRESETS
from lbdns_tools.lab.watching import watching

LOOK_S: Final = 1.0  # between two looks whether everything in a lab still runs
MODULES: Final = ("pyroute2", "matplotlib")
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
EPILOG: Final = """\b
Examples:
  lbdns-lab webstone --quick --out /tmp/quick
  lbdns-lab webstone --out webstone --repeat 3
  lbdns-lab webstone --farm farm.toml --selections round_robin,best --clients 20..100/40 --out own
  lbdns-lab balancers --out balancers
  lbdns-lab farm farm.toml
  lbdns-lab farm farm.toml -- lbdns-load http://best.hobbit/ --resolve connection --clients 20
  lbdns-lab clean

Needs root, and what `make deps-lab` installs. Everything is in network namespaces of its own, with no way out, and is
removed in the end. docs/lab.md explains studies, files and columns.

Exit status: 0 well, 1 if something failed, 2 for bad arguments, 130 after Ctrl-C."""


@click.group(epilog=EPILOG, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="lbdns-lab")
def command() -> None:
    """Build a farm of web servers on this machine, with its DNS server, agents and clients, and do a study on it."""


@command.command(context_settings=CONTEXT)
@click.option("--all", "everything", is_flag=True, help="Also labs that are running.")
def clean(everything: bool) -> None:
    """Remove what a lab has left that was killed.

    Example: lbdns-lab clean
    """
    _need_root()
    for line in traces_left.clean(everything) or ["there is nothing to remove"]:
        click.echo(line)


@command.command(context_settings=CONTEXT)
@click.argument("file", type=FARM_FILE, metavar="FILE.toml")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def farm(file: Path, words: tuple[str, ...]) -> int:
    """Build a farm, and run COMMAND on its first client; without one, keep it until Ctrl-C.

    \b
    A file is such as:
      [[host]]
      name = "gandalf"
      cpu = 0.4           # cores
      [[host]]
      name = "frodo"
      cpu = 0.07
      memory = 268435456  # bytes; and workers = 150
      [farm]
      clients = 2         # and proxies = ["haproxy"], resolvers = 1, resolver_min_ttl = 5,
      interval = 1        # agents_inside = false, cpu_period = 0.1

    Example: lbdns-lab farm farm.toml -- lbdns-load http://best.hobbit/ --resolve connection
    """
    _need_root()
    built = _read(file)
    _need([built])
    with ends_once(), Lab(built) as lab:
        try:
            return _on(lab, words) if words else _keep(lab)
        except KeyboardInterrupt:
            if words:
                raise
            return 0  # this is how it is meant to end


def _on(lab: Lab, words: Sequence[str]) -> int:
    """Run a command on the first client host; its exit status."""
    client = lab.clients()[0]
    status = subprocess.run(client.command(*words), check=False).returncode
    return status if status >= 0 else 128 - status  # ended by a signal, as shells have it


def _keep(lab: Lab) -> int:
    for line in whereabouts(lab):
        click.echo(line)
    while True:
        lab.programs.check()
        time.sleep(LOOK_S)


def whereabouts(lab: Lab) -> Iterable[str]:
    """Who is where in a lab, and what to try."""
    for name, place in lab.places.items():
        yield f"{place.machine.kind:9}{name:20}{place.machine.address:16}{place.machine.address6:24}{place.namespace}"
    client = shlex.join(("ip", "netns", "exec", lab.clients()[0].namespace))
    best = next(owner for owner, policy in NAMES.items() if policy == "best")
    yield ""
    yield "Try:"
    yield f"  {client} dig {best}.{ZONE}"
    yield f"  {client} curl --include http://{best}.{ZONE}/"
    yield f"  {client} lbdns-load http://{best}.{ZONE}/ --resolve connection --clients 20"
    yield "Ctrl-C ends it."


def _study(preset: Preset) -> click.Command:
    """The command of a preset."""

    @click.command(
        preset.name,
        help=preset.help,
        short_help=preset.title,
        epilog=f"Example: lbdns-lab {preset.name} --quick --out {preset.name}",
        context_settings=CONTEXT,
    )
    @study_options
    def do(**said: Any) -> int:
        _need_root()
        settings = settings_of(said)
        study = preset.plan(settings, _read(said["farm"]) if said["farm"] else None).only(settings.only)
        _need(study.farms.values())
        folder = _new_folder(said["out"], said["force"])
        console = Console(stderr=True)
        for line in runner.told(study):
            console.print(line, markup=False, highlight=False)
        with ends_once(), watching(study, console) as watcher:
            done = runner.run(preset, study, settings, folder, Lab, watcher)
        return _end(done, folder)

    return do


for _preset in PRESETS.values():
    command.add_command(_study(_preset))


def _end(done: runner.Done, folder: Path) -> int:
    for failure in done.failures:
        click.echo(f"failed: {failure}", err=True)
    click.echo(f"report: {folder / 'index.html'}")
    if done.interrupted:
        raise click.Abort
    if done.error is not None:
        raise done.error
    return 0 if done.outcomes and not done.failures else 1


def _need_root() -> None:
    if os.geteuid() != 0:
        raise LbdnsError(
            "lbdns-lab needs root, for network namespaces and control groups: sudo " + shlex.join(sys.orig_argv)
        )


def _need(farms: Iterable[Farm]) -> None:
    """Raises LbdnsError with everything that the lab needs and that isn't installed."""
    programs = {"apache2", "perl", "nsenter", "unshare"}
    for each in farms:
        programs |= {proxy for proxy in each.proxies if proxy != "pound"}  # which Debian 12 hasn't got
        programs |= {"unbound"} if each.resolvers else set()
    missing = sorted(name for name in programs if not installed.is_there(name))
    missing += [f"Python's {name}" for name in MODULES if not importlib.util.find_spec(name)]
    if missing:
        raise LbdnsError(
            f"not installed: {', '.join(missing)}; `make deps-lab` as root installs all that the lab needs"
        )


def _read(path: Path) -> Farm:
    found = read_farm(path)
    note = beyond(found, len(os.sched_getaffinity(0)))
    if note:
        click.echo(f"{path}: {note}", err=True)
    return found


def _new_folder(path: Path, force: bool) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()) and not force:
            raise ConfigError(f"--out: {path} isn't empty; take a new folder, or write into this one with --force")
    except OSError as error:
        raise ConfigError(f"--out: {path}: can't be made: {error.strerror}") from None
    return path


def main() -> None:
    """The entry point of the program ``lbdns-lab``."""
    sys.exit(run_command(command, "lbdns-lab"))
