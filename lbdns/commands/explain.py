"""``lbdns explain``: show the member that will be selected for the next query for a name, and explain why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
from rich.console import Console
from rich.text import Text

from lbdns.client.control_client import send_command
from lbdns.client.http_client import fetch
from lbdns.client.server_location import http_location, serves_no_http
from lbdns.command_line.common_options import config_option, control_option, control_path, url_option
from lbdns.commands.terminal.printable import STATES, number, override_text, per_second, percent, printable
from lbdns.commands.terminal.site_lines import site_lines
from lbdns.text.counts import counted
from lbdns_shared.errors import LbdnsError

EXPLAIN: Final = "/api/v1/explain"
NAME: Final = 20  # columns; a longer name gets a line of its own
_HEADINGS: Final = ("chance", "score", "cap", "capacity", "load", "charge", "credit", "age s")
_WIDTHS: Final = (6, 6, 4, 8, 7, 7, 6, 6)
_INDENT: Final = "    "


@click.command(
    epilog="Exit status: 0 on success, 1 if no pool serves the name or the server does not respond, 2 on invalid "
    "arguments or an invalid configuration."
)
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print the server's full explanation as JSON.")
@url_option
@control_option
@config_option
def explain(name: str, as_json: bool, url: str | None, control: Path | None, config: Path) -> None:
    """Show the member that will be selected for the next query for NAME, and the figures that explain the selection.

    NAME is one of a pool's names, with or without the zone (best.hobbit or best). The command has no effect on later
    selections. The command contacts the server over HTTP. If --control is given or HTTP is disabled, it uses the
    control socket.

    \b
    Examples:
      lbdns explain best.hobbit
      lbdns explain round.robin --json
      lbdns explain best --control /run/lbdns/control.sock
    """
    document, where = _fetch_explanation(name, url, control, config)
    try:
        lines = list(explanation_lines(document))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LbdnsError(f"{where}: the response is not from lbdns: its explanation is not valid: {error!r}") from None
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    console = Console(highlight=False)
    for line in lines:
        console.print(line)


def _fetch_explanation(name: str, url: str | None, control: Path | None, config: Path) -> tuple[Any, str]:
    """Return the explanation, and its source (a URL or a socket path). Raises LbdnsError."""
    if control is None and url is None and serves_no_http(config):
        control = control_path(config, None)
    if control is not None:
        return send_command(control, "explain", name=name).get("explanation"), str(control)
    server = http_location(url, config)
    body = fetch(server, f"{EXPLAIN}?{urlencode({'name': name})}")
    try:
        return json.loads(body), server.base
    except ValueError as error:
        raise LbdnsError(
            f"{server.base}: the response is not from lbdns: {EXPLAIN} did not return JSON: {error}"
        ) from None


def explanation_lines(document: Mapping[str, Any]) -> Iterator[Text]:
    """Yield the explanation as lines of at most 80 columns. Only lines that quote a user's reason may be longer.

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
        line.append(f", according to worker {int(document['worker'])} of {int(document['workers'])}")
    yield line
    yield Text("next: ").append(printable(document["next"]), "bold green").append(f", {printable(document['why'])}")
    if alternatives := document.get("alternatives"):
        yield Text(f"then, in the same answer: {', '.join(map(printable, alternatives))}")
    if document["fail_open"]:
        yield Text(f"fail open: {printable(document['fail_open_reason'])}", "bold red")
    if (backup := document.get("backup")) and backup["share"]:
        share = f"{100 * float(backup['share']):.0f} % to {printable(backup['pool'])}"
        yield Text(f"pool {printable(document['pool'])} {printable(backup['why'])}: {share}", "bold yellow")
    yield from site_lines(document, all_orders=True)
    plan = document["plan"]
    following = ", ".join(map(printable, plan["next"]))
    given, length = int(plan["given"]), int(plan["length"])
    used = f"{given} of {length} answers used" if given <= length else f"all {length} answers used, now repeated"
    yield Text(f"plan: {used}; next: {following}")
    unit = "requests/s" if document["measured"] else "estimated from cores and load"
    answers, requests = per_second(document["answers_per_s"]), per_second(document["requests_per_s"])
    every = f"a report every {float(document['interval_s']):g} s"
    yield Text(f"rates: {answers} answers/s, {requests} requests/s, {every}; ttl {int(document['ttl'])}")
    few = f"light traffic for {counted(int(document['answers_allowed']), 'more answer')}"
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
    overrides = [override_text(override, now) for override in member["overrides"]]
    notes = overrides or [printable(member["reason"] or "")]
    notes.append(printable(member["guard"] or ""))
    if member["suspect"]:
        notes.append("its reports are overdue")
    if not member["candidate"]:
        notes.append("is not selected")
    # Only values that differ from the default
    notes += [f"{key} {float(member[key]):g}" for key in ("left", "ramp", "weight") if float(member[key]) != 1.0]
    if tasks := float(member.get("other_tasks", 0.0)):  # absent in older servers
        notes.append(f"other tasks {tasks:g}")
    if standstill := float(member.get("standstill", 0.0)):
        notes.append(f"stands still for {1000 * standstill:.0f} ms per request")
    yield line.append("".join(f"; {note}" for note in notes if note))


def _parts(parts: Mapping[str, float]) -> Iterator[Text]:
    """Yield lines that list the components of a score, in descending order."""
    words = [f"{printable(metric)} {float(part):.1f}" for metric, part in sorted(parts.items(), key=lambda p: -p[1])]
    line, between = f"{_INDENT}score:", " "
    for word in words:
        if len(line) + len(between) + len(word) > 79:
            yield Text(line, "dim")
            line, between = f"{_INDENT} ", " + "
        line += f"{between}{word}"
        between = " + "
    yield Text(line, "dim")
