"""Writes manual pages: one for each program, in which each subcommand has a section."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Final

from lbdns_packaging.command_descriptions import CommandDescription, OptionDescription

SECTION: Final = 1
_EXIT_STATUS: Final = (
    ("0", "The command succeeded, or SIGTERM or SIGINT stopped a long-running program."),
    ("1", "The command failed at run time, or the server refused it."),
    ("2", "The arguments or the configuration are invalid."),
    ("130", "Ctrl-C interrupted the command."),
)


def man_page(program: CommandDescription, epoch: int, version: str, others: Iterable[str]) -> str:
    """Return the source of a manual page (man(7)). ``others`` are the programs to list under SEE ALSO."""
    day = time.strftime("%Y-%m-%d", time.gmtime(epoch))
    lines = [f'.TH "{program.name.upper()}" {SECTION} "{day}" "lbdns {version}" "User Commands"']
    lines += [".ad l", ".nh"]  # ragged lines without hyphens: a divided option could not be copied
    lines += [".SH NAME", f"{_text(program.name)} \\- {_text(program.summary[:1].lower() + program.summary[1:])}"]
    lines += [".SH SYNOPSIS", *_usage(program)]
    lines += [".SH DESCRIPTION", *_paragraphs(program.paragraphs)]
    if program.options:
        lines += [".SH OPTIONS", *_options(program.options)]
    if program.subcommands:
        lines.append(".SH COMMANDS")
        for command in program.subcommands:
            lines += _command(command)
    lines.append(".SH EXIT STATUS")
    for status, meaning in _EXIT_STATUS:
        lines += [".TP", f"\\fB{status}\\fR", _text(meaning)]
    lines += [".SH SEE ALSO", ",\n".join(f"\\fB{_text(other)}\\fR({SECTION})" for other in sorted(others))]
    return "\n".join(line for line in lines if line) + "\n"


def _command(command: CommandDescription) -> Iterator[str]:
    yield f".SS {_text(command.name)}"
    yield from _usage(command)
    yield ".PP"
    yield from _paragraphs(command.paragraphs)
    yield from _options(command.options)
    for child in command.subcommands:
        yield from _command(child)


def _usage(command: CommandDescription) -> tuple[str, ...]:
    return (f"\\fB{_text(command.name)}\\fR {_text(command.arguments)}",)


def _options(options: Iterable[OptionDescription]) -> Iterator[str]:
    for option in options:
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
        yield ".TP"
        yield f"{names} \\fI{_text(option.value)}\\fR" if option.value else names
        yield _text(" ".join(option.help.split()))


def _paragraphs(paragraphs: Iterable[str]) -> Iterator[str]:
    """Yield the lines of ``paragraphs`` in man(7). A paragraph that begins with ``\\b`` keeps its line breaks."""
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield ".nf"
            yield from (_text(line) for line in paragraph.removeprefix("\b").strip("\n").splitlines())
            yield ".fi"
        else:
            yield _text(" ".join(paragraph.split()))


def _text(text: str) -> str:
    """Return ``text`` escaped for man(7), so that none of it is interpreted as a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")
    escaped = escaped.replace("`", "\\(ga").replace("'", "\\(aq")
    return re.sub(r"(?m)^(?=\.)", r"\\&", escaped)
