"""The options of ``lbdns-lab``'s studies: names, types, help; and the settings that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lbdns_tools.lab.presets.preset import Settings
from lbdns_tools.load.options import MAX_REPETITIONS, SECONDS_TYPE, Read
from lbdns_tools.load.sweep import parse_counts

F = TypeVar("F", bound=Callable[..., Any])


def parse_names(text: str) -> tuple[str, ...]:
    """``a,b``, each once. Raises ValueError."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"{text!r}: a name is missing; write such as round_robin,best")
    return tuple(dict.fromkeys(names))


FARM_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        required=True,
        help="A new folder for report, results and samples.",
    ),
    click.option("--force", is_flag=True, help="Write into it even if it isn't empty."),
    click.option("--quick", is_flag=True, help="A few points, a few minutes."),
    click.option("--farm", type=FARM_FILE, metavar="FILE.toml", help="A farm of one's own. [default: the study's]"),
    click.option("--seconds", type=SECONDS_TYPE, help="A measurement takes, the warm-up apart."),
    click.option("--warm-up", type=SECONDS_TYPE, help="Of load before each that doesn't count."),
    click.option(
        "--repeat",
        type=click.IntRange(1, MAX_REPETITIONS),
        default=1,
        show_default=True,
        metavar="N",
        help="Measurements of each point.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**62),
        default=1,
        show_default=True,
        metavar="N",
        help="Of chance; each repetition adds 1.",
    ),
    click.option("--clients", type=Read(parse_counts, "N[..M/STEP],..."), help="Clients, or connections, at a time."),
    click.option("--selections", type=Read(parse_names, "NAME,..."), help="Who chooses the server; all if not said."),
    click.option("--only", default="", metavar="PATTERN", help="Steps whose name has it, and what those need."),
)


def study_options(command: F) -> F:
    """All of them, in the order in which --help shows them."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def settings_of(said: Mapping[str, Any]) -> Settings:
    return Settings(
        quick=said["quick"],
        seconds=said["seconds"],
        warm_up_s=said["warm_up"],
        repetitions=said["repeat"],
        seed=said["seed"],
        clients=said["clients"] or (),
        selections=said["selections"] or (),
        only=said["only"],
    )
