"""The command ``lbdns-lab``, which builds farms, runs studies on them, and cleans up after labs that were killed."""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click
from rich.console import Console

from lbdns.command_line.command_group import SuggestingGroup
from lbdns.command_line.run_command import run as run_command
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools import __version__, installed_programs
from lbdns_tools.apache_process import php_modules
from lbdns_tools.lab import study_runner
from lbdns_tools.lab.farm.lab_farm import LabFarm
from lbdns_tools.lab.farm.lab_farm_file import beyond, read_farm
from lbdns_tools.lab.lab_options import FARM_FILE, settings_of, study_options
from lbdns_tools.lab.loads.farm_load import dns_name
from lbdns_tools.lab.machines import leftover_cleanup
from lbdns_tools.lab.measuring.outcome_journal import JOURNAL, open_journal
from lbdns_tools.lab.presets import (
    arrival_ramp_study,
    balancer_study,
    capacity_study,
    day_trace_study,
    far_study,
    other_loads_study,
    sites_study,
    ten_hosts_study,
    webstone_study,
)
from lbdns_tools.lab.running_lab import Lab
from lbdns_tools.lab.study_plan import StudyPreset
from lbdns_tools.lab.study_progress import watching

STUDIES: Final = (
    webstone_study, balancer_study, capacity_study, arrival_ramp_study, day_trace_study, other_loads_study,
    sites_study, far_study, ten_hosts_study,
)  # fmt: skip
PRESETS: Final = {study.PRESET.name: study.PRESET for study in STUDIES}
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
CHECK_S: Final = 1.0  # interval between checks that all programs of a kept lab are still running
MODULES: Final = ("pyroute2", "matplotlib")
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
EPILOG: Final = """\b
Examples:
  lbdns-lab webstone --quick --out /tmp/quick
  lbdns-lab webstone --out webstone --repeat 3
  lbdns-lab webstone --farm farm.toml --selections round_robin,best --clients 20..100/40 --out own
  lbdns-lab webstone --workload page50k --intervals 1999 --clients 20,60,100 --repeat 3 --out 1999 --resume
  lbdns-lab balancers --out balancers
  lbdns-lab farm farm.toml
  lbdns-lab farm farm.toml -- lbdns-load http://best.hobbit/ --resolve connection --clients 20
  lbdns-lab clean

lbdns-lab needs root privileges and the packages that `make deps-lab` installs. A lab runs in network namespaces that
cannot reach any other network, and is removed when the command ends. docs/reference/lab.md explains the studies,
files and columns.

Exit status: 0 on success, 1 on failure, 2 on invalid arguments, 130 after Ctrl-C."""


@click.group(cls=SuggestingGroup, epilog=EPILOG, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="lbdns-lab", message="%(prog)s %(version)s")
def command() -> None:
    """Build a farm of web servers, a DNS server, agents and clients on this machine, and run a load-balancing study."""


@command.command(context_settings=CONTEXT)
@click.option("--all", "everything", is_flag=True, help="Remove all labs, including running ones.")
def clean(everything: bool) -> None:
    """Remove the namespaces, control groups, processes and files that labs left behind when they were killed.

    Example: lbdns-lab clean
    """
    _need_root()
    for line in leftover_cleanup.clean(everything) or ["nothing to remove"]:
        click.echo(line)


@command.command(context_settings=CONTEXT)
@click.argument("file", type=FARM_FILE, metavar="FILE.toml")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def farm(file: Path, words: tuple[str, ...]) -> int:
    """Build a farm and run COMMAND on the first client. Without COMMAND, keep the farm running until Ctrl-C.

    \b
    An example of FILE.toml:
      [[host]]
      name = "gandalf"
      cpu = 0.4           # cores
      [[host]]
      name = "frodo"
      cpu = 0.07
      memory = 268435456  # bytes
      workers = 150       # Apache processes
      [farm]
      clients = 2         # [farm] also takes proxies = ["haproxy"], resolvers = 1,
      interval = 1        # resolver_min_ttl = 5, agents_inside = false, cpu_period = 0.1

    Example: lbdns-lab farm farm.toml -- lbdns-load http://best.hobbit/ --resolve connection
    """
    _need_root()
    built = _read(file)
    _need([built])
    with ends_once(), Lab(built) as lab:
        try:
            return _run_on_client(lab, words) if words else _keep(lab)
        except KeyboardInterrupt:
            if words:
                raise
            return 0  # the intended way to end a kept farm


def _run_on_client(lab: Lab, words: Sequence[str]) -> int:
    status = subprocess.run(lab.clients()[0].command(*words), check=False).returncode
    return status if status >= 0 else 128 - status  # after a signal, the status that shells report


def _keep(lab: Lab) -> int:
    for line in whereabouts(lab):
        click.echo(line)
    while True:
        lab.programs.check()
        time.sleep(CHECK_S)


def whereabouts(lab: Lab) -> Iterable[str]:
    """Yield lines of text that list the lab's machines, addresses and namespaces, and some example commands."""
    for name, place in lab.places.items():
        yield f"{place.machine.kind:9}{name:20}{place.machine.address:16}{place.machine.address6:24}{place.namespace}"
    client = shlex.join(("ip", "netns", "exec", lab.clients()[0].namespace))
    best = dns_name("best")
    yield ""
    yield "Try:"
    yield f"  {client} dig {best}"
    yield f"  {client} curl --include http://{best}/"
    yield f"  {client} lbdns-load http://{best}/ --resolve connection --clients 20"
    yield "Press Ctrl-C to remove the farm."


def _study(preset: StudyPreset) -> click.Command:

    @click.command(
        preset.name,
        help=preset.help,
        short_help=preset.title,
        epilog=f"Example: lbdns-lab {preset.name} --quick --out {preset.name}",
        context_settings=CONTEXT,
    )
    @study_options
    def do(**given: Any) -> int:
        _need_root()
        settings = settings_of(given)
        if preset.name != webstone_study.PRESET.name and (given["workload"] or given["intervals"]):
            raise ConfigError("--workload and --intervals apply only to the study webstone")
        study = preset.plan(settings, _read(given["farm"]) if given["farm"] else None).only(settings.only)
        _need(study.farms.values())
        resume = given["resume"] and (given["out"] / JOURNAL).exists()
        folder = _new_folder(given["out"], given["force"] or resume)
        with open_journal(folder, preset.name, settings, study.farms, resume) as journal:
            left, console = study.without(journal.done), Console(stderr=True)
            for line in study_runner.summary(left, len(study.steps) - len(left.steps)):
                console.print(line, markup=False, highlight=False)
            with ends_once(), watching(left, console) as watcher:
                done = study_runner.run(preset, study, settings, folder, Lab, watcher, journal)
        return _end(done, folder)

    return do


for _preset in PRESETS.values():
    command.add_command(_study(_preset))


@contextmanager
def ends_once() -> Iterator[None]:
    """Raise KeyboardInterrupt only on the first Ctrl-C or SIGTERM, so that later signals cannot interrupt the
    cleanup."""
    interrupted = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            print("lbdns-lab is already shutting down; please wait a few seconds", file=sys.stderr)
            return
        interrupted = True
        raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(done: study_runner.StudyResult, folder: Path) -> int:
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
            "lbdns-lab needs root privileges to create network namespaces and control groups; run: sudo "
            + shlex.join(sys.orig_argv)
        )


def _need(farms: Collection[LabFarm]) -> None:
    """If required programs or modules are not installed, raise an LbdnsError that lists them."""
    programs = {"apache2", "perl", "nsenter", "unshare"}
    for each in farms:
        programs |= {proxy for proxy in each.proxies if proxy != "pound"}  # Debian 12 has no package of Pound
        programs |= {"unbound"} if each.resolvers else set()
        programs |= {"openssl"} if each.tls else set()
        programs |= {"memcached"} if each.php else set()
    missing = sorted(name for name in programs if not installed_programs.is_there(name))
    missing += ["PHP for Apache"] if any(each.php for each in farms) and not php_modules() else []
    missing += [f"Python's {name}" for name in MODULES if not importlib.util.find_spec(name)]
    if missing:
        raise LbdnsError(
            f"not installed: {', '.join(missing)}; run `make deps-lab` as root to install all dependencies of the lab"
        )


def _read(path: Path) -> LabFarm:
    found = read_farm(path)
    note = beyond(found, len(os.sched_getaffinity(0)))
    if note:
        click.echo(f"{path}: {note}", err=True)
    return found


def _new_folder(path: Path, force: bool) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()) and not force:
            raise ConfigError(
                f"--out: {path} is not empty; specify a new directory, or add --force to use this directory anyway"
            )
    except OSError as error:
        raise ConfigError(f"--out: cannot create {path}: {error.strerror}") from None
    return path


def main() -> None:
    """Run the program ``lbdns-lab`` and exit with its status."""
    sys.exit(run_command(command, "lbdns-lab"))
