"""Defines the options of studies, such as --out and --quick, and converts them to StudySettings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from lbdns.command_line.common_options import ParsedValue
from lbdns_tools.command_options import SECONDS, SEED_OPTION, add_options, repeat_option
from lbdns_tools.lab.study_plan import StudySettings
from lbdns_tools.load.load_option_parsers import parse_counts


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list such as ``a,b``. Duplicates are removed. Raises ValueError."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(
            f"{text!r}: names must not be empty; separate names with single commas, for example round_robin,best"
        )
    return tuple(dict.fromkeys(names))


WORKLOADS: Final = ("mix", "page50k")
INTERVALS: Final = ("webstone", "1999")
FARM_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        required=True,
        help="New directory for the report, results and samples.",
    ),
    click.option("--force", is_flag=True, help="Write to DIR even if it is not empty."),
    click.option(
        "--resume", is_flag=True, help="If an interrupted study began in DIR, run only the steps that are missing."
    ),
    click.option(
        "--quick", is_flag=True, help="Run a short version of the study, with fewer measurements, in a few minutes."
    ),
    click.option("--farm", type=FARM_FILE, metavar="FILE.toml", help="Farm file. [default: built-in farm]"),
    click.option("--seconds", type=SECONDS, help="Duration of each measurement, excluding the warm-up."),
    click.option("--warm-up", "warm_up_s", type=SECONDS, help="Duration of the warm-up before each measurement."),
    repeat_option("Number of repetitions of each measurement."),
    SEED_OPTION,
    click.option(
        "--clients",
        type=ParsedValue(parse_counts, "N[..M/STEP],..."),
        help="Numbers of concurrent clients or connections to test.",
    ),
    click.option(
        "--selections",
        type=ParsedValue(parse_names, "NAME,..."),
        help="Server selection methods to compare. [default: all methods in the study]",
    ),
    click.option(
        "--workload",
        type=click.Choice(WORKLOADS),
        help="Files that clients of the study webstone request. [default: mix]",
    ),
    click.option(
        "--intervals",
        type=click.Choice(INTERVALS),
        help="Intervals at which clients of the study webstone look up names again. [default: webstone]",
    ),
    click.option(
        "--only",
        default="",
        metavar="PATTERN",
        help="Run only the steps whose names match the regular expression PATTERN, plus all required steps.",
    ),
)


study_options: Final = add_options(OPTIONS)


def settings_of(given: Mapping[str, Any]) -> StudySettings:
    """Return the study settings that the command-line options specify."""
    alike: dict[str, Any] = {name: given[name] for name in ("quick", "seconds", "warm_up_s", "seed", "only")}
    clients, selections = given["clients"] or (), given["selections"] or ()
    alike |= {name: given[name] or "" for name in ("workload", "intervals")}
    return StudySettings(repetitions=given["repeat"], clients=clients, selections=selections, **alike)
