"""Lines of an explanation (``lbdns.planning.explanation``): the next member and why, then every member. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.text import Text

from lbdns.commands.terminal.printable import STATES, number, override_text, per_second, percent, printable

NAME: Final = 20  # columns; a longer name gets a line of its own
_HEADINGS: Final = ("chance", "score", "cap", "capacity", "load", "charge", "credit", "age s")
_WIDTHS: Final = (6, 6, 4, 8, 7, 7, 6, 6)
_INDENT: Final = "    "


def explanation_lines(document: Mapping[str, Any]) -> Iterator[Text]:
    """Yield lines of at most 80 columns; only reasons that users wrote may be longer.

    Raises KeyError, TypeError or ValueError if ``document`` is not an explanation.
    """
    yield from _header(document)
    yield Text()
    yield Text(_row("member", _HEADINGS), "bold underline")
    for member in document["members"]:
        yield from _member(member, float(document["time"]))


def _header(document: Mapping[str, Any]) -> Iterator[Text]:
    line = Text(printable(document["name"]), "bold")
    line.append(f": pool {printable(document['pool'])}, policy {printable(document['policy'])}", "default")
    if int(document["workers"]) > 1:
        line.append(f", as worker {int(document['worker'])} of {int(document['workers'])} sees it")
    yield line
    yield Text("next: ").append(printable(document["next"]), "bold green").append(f", {printable(document['why'])}")
    if document["fail_open"]:
        yield Text(f"fail open: {printable(document['fail_open_reason'])}", "bold red")
    plan = document["plan"]
    following = ", ".join(map(printable, plan["next"]))
    yield Text(f"plan: {int(plan['given'])} of {int(plan['length'])} given; goes on with {following}")
    unit = "requests/s" if document["measured"] else "an estimate from cores and load"
    answers, requests = per_second(document["answers_per_s"]), per_second(document["requests_per_s"])
    every = f"a report every {float(document['interval_s']):g} s"
    yield Text(f"rates: {answers} answers/s, {requests} requests/s, {every}; ttl {int(document['ttl'])}")
    few = f"{int(document['answers_allowed'])} more answers count as light traffic"
    yield Text(f"score: {printable(document['score_name'])}; capacity: {unit}; {few}")


def _row(name: str, values: tuple[str, ...]) -> str:
    cells = (f"{value:>{width}}" for value, width in zip(values, _WIDTHS, strict=True))
    return f"{name:<{NAME}} {' '.join(cells)}"


def _member(member: Mapping[str, Any], now: float) -> Iterator[Text]:
    name, state = printable(member["name"]), str(member["state"])
    values = (
        percent(member["probability"]), number(member["score"]), percent(member["capacity_share"]),
        per_second(member["capacity"]), number(member["load"], 2), number(member["charge"], 2),
        number(member["credit"], 2), number(member["age_s"], 1),
    )  # fmt: skip
    if len(name) > NAME:
        yield Text(name, "bold")
        name = ""
    row = Text(_row(name, values))
    row.stylize("bold", 0, NAME)
    yield row
    if member["score_parts"]:
        yield from _parts(member["score_parts"])
    line = Text(_INDENT).append(printable(state), STATES.get(state, ""))
    said = [printable(member[key]) for key in ("reason", "guard") if member[key] and not member["overrides"]]
    said += [override_text(override, now) for override in member["overrides"]]
    if member["guard"] and member["overrides"]:
        said.append(printable(member["guard"]))
    if member["suspect"]:
        said.append("its reports are overdue")
    if not member["candidate"]:
        said.append("is not selected")
    # Only values that differ from the default
    said += [f"{key} {float(member[key]):g}" for key in ("left", "ramp", "weight") if float(member[key]) != 1.0]
    yield line.append("".join(f"; {text}" for text in said))


def _parts(parts: Mapping[str, float]) -> Iterator[Text]:
    """Yield the parts of a score, largest first, on lines of their own."""
    words = [f"{printable(metric)} {float(part):.1f}" for metric, part in sorted(parts.items(), key=lambda p: -p[1])]
    line = f"{_INDENT}score: "
    for number_, word in enumerate(words):
        joined = word if not number_ else f" + {word}"
        if len(line) + len(joined) > 79:
            yield Text(line, "dim")
            line, joined = f"{_INDENT}  ", f"+ {word}"
        line += joined
    yield Text(line, "dim")
