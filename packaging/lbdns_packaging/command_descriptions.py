"""Describes the programs' commands and options, read from click and argparse, for manual pages and completions."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import click

#: Package -> program -> the function or command that defines it, as MODULE:NAME
PROGRAMS: Final = {
    "lbdns": {"lbdns": "lbdns.cli:lbdns", "lbdns-collector": "lbdns_collector.cli:command"},
    "lbdns-agent": {"lbdns-agent": "lbdns_agent.cli:build_parser"},
    "lbdns-tools": {
        "lbdns-calibrate": "lbdns_tools.calibrate.cli:command",
        "lbdns-lab": "lbdns_tools.lab.lab_command:command",
        "lbdns-load": "lbdns_tools.load.load_command:command",
        "lbdns-scaler": "lbdns_tools.scaler.scaler_command:command",
        "lbdns-sim": "lbdns_tools.sim.sim_command:command",
    },
}
#: The agent's subcommands, which argparse does not know: each is a program of its own
AGENT_SUBCOMMANDS: Final = {
    "record": "lbdns_agent.recorder.record_command:build_parser",
    "plot": "lbdns_agent.recorder.plot_command:build_parser",
}


@dataclass(frozen=True)
class OptionDescription:
    """An option: its names (``-c``, ``--config``), the word for its value (empty for a flag), and its help."""

    names: tuple[str, ...]
    value: str
    help: str


@dataclass(frozen=True)
class CommandDescription:
    """A program or a subcommand. ``name`` contains the program's name, such as ``lbdns status``.

    ``paragraphs`` are the paragraphs of the description. A paragraph that begins with ``\\b`` keeps its line breaks.
    """

    name: str
    arguments: str  # of the usage, such as "[OPTIONS] NAME"
    summary: str
    paragraphs: tuple[str, ...]
    options: tuple[OptionDescription, ...]
    subcommands: tuple[CommandDescription, ...] = ()

    @property
    def word(self) -> str:
        """The last word of its name: what a user types for a subcommand."""
        return self.name.rpartition(" ")[2]


def describe_program(package: str, program: str) -> CommandDescription:
    """Return the description of a program in PROGRAMS."""
    found = _load(PROGRAMS[package][program])
    if isinstance(found, click.Command):
        return _of_click(found, program, None)
    described = _of_argparse(found(), program)
    subcommands = tuple(
        _of_argparse(_load(place)(), f"{program} {word}") for word, place in sorted(AGENT_SUBCOMMANDS.items())
    )
    return CommandDescription(
        program, described.arguments, described.summary, described.paragraphs, described.options, subcommands
    )


def _load(place: str) -> Callable[[], argparse.ArgumentParser] | click.Command:
    module, _, name = place.partition(":")
    found: Callable[[], argparse.ArgumentParser] | click.Command = getattr(import_module(module), name)
    return found


def _of_click(command: click.Command, name: str, parent: click.Context | None) -> CommandDescription:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    children = [(word, child) for word in names if (child := command.get_command(context, word)) and not child.hidden]  # type: ignore[attr-defined]
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    paragraphs = [part.strip("\n") for part in (text, inspect.cleandoc(command.epilog or "")) if part.strip()]
    return CommandDescription(
        name=name,
        arguments=" ".join(command.collect_usage_pieces(context)),
        summary=command.get_short_help_str(100).rstrip("."),
        paragraphs=tuple(paragraph for part in paragraphs for paragraph in part.split("\n\n")),
        options=tuple(_click_options(command, context)),
        subcommands=tuple(_of_click(child, f"{name} {word}", context) for word, child in children),
    )


def _click_options(command: click.Command, context: click.Context) -> Iterator[OptionDescription]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if not isinstance(parameter, click.Option) or record is None:
            continue
        value = "" if parameter.is_flag or parameter.count else parameter.make_metavar(context)
        names = sorted((*parameter.opts, *parameter.secondary_opts), key=lambda option: (len(option), option))
        yield OptionDescription(tuple(names), value, record[1])


def _of_argparse(parser: argparse.ArgumentParser, name: str) -> CommandDescription:
    formatter = parser._get_formatter()
    options = []
    words = ["[OPTIONS]"]
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        value = "" if action.nargs == 0 else formatter._format_args(action, (action.metavar or action.dest.upper()))  # type: ignore[arg-type]
        if action.option_strings:
            text = formatter._expand_help(action) if action.help else ""
            options.append(OptionDescription(tuple(action.option_strings), value, text))
        else:
            words.append(value)
    description, epilog = parser.description or "", (parser.epilog or "").strip("\n")
    return CommandDescription(
        name=name,
        arguments=" ".join(words),
        summary=description.partition("\n")[0].rstrip("."),
        paragraphs=tuple(text for text in (description, f"\b\n{epilog}" if epilog else "") if text),
        options=tuple(options),
    )
