"""``lbdns status``: print the status of a running server, as JSON or as a summary and an 80-column table per pool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lbdns.client.http_client import STATUS_PATH, fetch
from lbdns.client.server_location import http_location
from lbdns.command_line.common_options import config_option, url_option
from lbdns.commands.terminal.member_notes import other_notes, problem_notes
from lbdns.commands.terminal.member_order import FULL, QUARANTINED, by_trouble, in_state, pool_summary, state_text
from lbdns.commands.terminal.printable import STATES, number, percent, printable
from lbdns.commands.terminal.site_lines import site_lines
from lbdns.text.counts import counted
from lbdns.text.suggestions import nearest
from lbdns.text.times import format_duration, format_time
from lbdns_shared.errors import LbdnsError

#: Column heading, metric, decimals. "idle" is CPU idle time, "queue" the number of runnable tasks.
METRICS: Final = (
    ("idle %", "cpu_idle", 1),
    ("queue", "run_queue", 0),
    ("req/s", "requests_per_s", 1),
    ("busy", "busy_workers", 0),
    ("ping ms", "gateway_ping", 2),
)
MOST_SENDERS: Final = 5  # of rejected reports
TOP: Final = 20  # rows of a table, unless --top sets another number


@click.command(epilog="Exit status: 0 on success, 1 if the server does not respond, 2 if the configuration is invalid.")
@click.option("--json", "as_json", is_flag=True, help="Print the server's full status as JSON.")
@click.option("--pool", "pools", multiple=True, metavar="NAME", help="Show only this pool. Can be repeated.")
@click.option("--state", "states", multiple=True, type=click.Choice((*STATES, QUARANTINED, FULL)),
              help="Show only members in this state. Can be repeated.")  # fmt: skip
@click.option(
    "--top", type=click.IntRange(min=0), metavar="N",
    help=f"Show at most N members of each pool, those in trouble first; 0: all.  [default: {TOP}]",
)  # fmt: skip
@url_option
@config_option
def status(
    as_json: bool, pools: Sequence[str], states: Sequence[str], top: int | None, url: str | None, config: Path
) -> None:
    """Show each pool member's state, score, age of the last report, and share of the answers.

    A summary comes first: one line per pool, the problems of its members, and the senders of rejected reports. In the
    tables, members in trouble come before the other members, which are ordered by share.

    The command reads the status over HTTP from the address in the section [web] of the configuration. If there is no
    configuration file, the command uses the default address.

    \b
    Examples:
      lbdns status
      lbdns status --pool web --top 0
      lbdns status --state silent --state alarm
      lbdns status --url http://127.0.0.1:8053 --json
    """
    if as_json and top is not None:
        raise click.UsageError(
            "--top and --json cannot be used together; to limit the JSON output, use --pool or --state"
        )
    server = http_location(url, config)
    body = fetch(server, STATUS_PATH)
    try:
        answer = json.loads(body)
        _check_pools(pools, [str(pool["name"]) for pool in answer["pools"]])
        if pools:
            answer["pools"] = [pool for pool in answer["pools"] if pool["name"] in pools]
        if as_json:
            for pool in answer["pools"]:
                pool["members"] = in_state(pool["members"], states)
            click.echo(json.dumps(answer, indent=2))
        else:
            print_status(answer, Console(highlight=False), TOP if top is None else top, states)
    except (ValueError, KeyError, TypeError, AttributeError):
        what = f"the response is not from lbdns: {STATUS_PATH} returned no valid status"
        raise LbdnsError(f"{server.base}: {what}") from None


def _check_pools(asked: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError if a requested pool does not exist."""
    for name in asked:
        if name not in known:
            raise click.UsageError(f"--pool: unknown pool {name!r}{nearest(name, known)}")


def print_status(status: Mapping[str, Any], console: Console, top: int = 0, states: Sequence[str] = ()) -> None:
    """Print a status document with at most ``top`` members of each pool, or with all members if ``top`` is 0.

    If ``states`` are given, only members in these states are listed. Raises KeyError, TypeError or ValueError if the
    document is not valid.
    """
    server = status["server"]
    now = float(server.get("started", 0.0)) + float(server["uptime_s"])
    head = [
        Text(
            f"lbdns {printable(server['version'])}, up {format_duration(float(server['uptime_s']))}, "
            f"{int(server['queries'])} queries, {counted(int(server['workers']), 'worker')}"
            f"{', native plane' if server.get('plane') == 'native' else ''}"
        ),
        *_python_plane(server),
        *_kernel(server),
        *_fault(server.get("fault", "")),
        *_history(server.get("history", {})),
        *_bus(status.get("reports", {}).get("bus")),
        *_sharing(status.get("shared_overrides")),
        *_answer_sharing(status.get("shared_answers"), status.get("reports", {}).get("bus")),
        Text(),
    ]
    for pool in status["pools"]:
        problems = problem_notes(in_state(pool["members"], states), now)
        head += [pool_summary(pool), *(_indented(note) for note in problems)]
    if rejected := list(_rejected(status.get("reports", {}))):  # absent in older servers and in followers
        head += [Text(), *rejected]
    tables = [_pool(pool, by_trouble(in_state(pool["members"], states)), top, now) for pool in status["pools"]]
    for line in head:
        _print(line, console)
    for items in tables:
        console.print()
        for item in items:
            _print(item, console)


def _print(item: Table | Text, console: Console) -> None:
    if isinstance(item, Text):
        console.print(item, no_wrap=item.no_wrap, overflow=item.overflow)  # rich ignores those of the text itself
    else:
        console.print(item)


def _indented(note: Text) -> Text:
    return Text("  ", note.style, no_wrap=note.no_wrap, overflow=note.overflow).append_text(note)


def _python_plane(server: Mapping[str, Any]) -> Iterator[Text]:
    """Yield a line if the slower plane answers, with the reason. Older servers do not report their plane."""
    if server.get("plane") == "python":
        yield Text(f"Python plane: {printable(server.get('plane_reason', ''))}")


def _kernel(server: Mapping[str, Any]) -> Iterator[Text]:
    """Yield a line for each interface on which the kernel must answer. Older servers have none."""
    kernel = server.get("kernel")
    if not kernel:
        return
    share = int(kernel["answers"]) / max(1, int(server["queries"]))
    answering = [printable(each["name"]) for each in kernel["interfaces"] if each["answers"]]
    if answering:
        yield Text(
            f"the kernel answers on {', '.join(answering)}: {int(kernel['answers'])} queries so far ({share:.0%})"
        )
    for each in kernel["interfaces"]:
        if not each["answers"]:
            text = f"the kernel does not answer on {printable(each['name'])}: {printable(each['fault'])}"
            yield Text(text, "bold red")


def _fault(fault: str) -> Iterator[Text]:
    if fault:
        yield Text(f"not healthy: {printable(fault)}", "bold red")


def _history(history: Mapping[str, Any]) -> Iterator[Text]:
    if not history.get("on"):
        return
    if not history["ok"]:
        yield Text(f"history: cannot be written: {printable(history['error'])}", "bold red")
    if history["dropped"]:
        yield Text(f"history: {int(history['dropped'])} records lost since startup", "red")


def _bus(bus: Mapping[str, Any] | None) -> Iterator[Text]:
    if bus and not bus["connected"]:
        yield Text(f"bus: no reports arrive: {printable(bus['problem'])}", "bold red")


def _sharing(shared: Mapping[str, Any] | None) -> Iterator[Text]:
    """Yield a line if the server is cut off from the servers with which it shares overrides."""
    if shared and not shared["connected"]:
        since = f" since {format_time(float(shared['cut_off_since']))}" if shared["cut_off_since"] else ""
        pending = f"; not sent yet: {counted(int(shared['pending']), 'order')}" if shared["pending"] else ""
        yield Text(
            f"overrides: cut off from the other servers{since}: {printable(shared['problem'])}{pending}", "bold red"
        )


def _answer_sharing(shared: Mapping[str, Any] | None, bus: Mapping[str, Any] | None) -> Iterator[Text]:
    """Yield a line if the server does not share its answers, unless the bus itself is the reason."""
    if shared and shared["problem"] and (bus is None or bus["connected"]):
        yield Text(f"answers: not shared with the other servers: {printable(shared['problem'])}", "bold red")


def _rejected(reports: Mapping[str, Any]) -> Iterator[Text]:
    """Yield a line for each sender of rejected reports, with advice about the newest reason."""
    senders = reports.get("rejected", ())
    if senders:
        yield Text("rejected reports in the last 10 minutes:", "bold red")
    for sender in senders[:MOST_SENDERS]:
        claimed = f" as {printable(sender['host'])}" if sender["host"] else ""
        key = f", key {printable(sender['key_id'])}" if sender["key_id"] else ""
        counts = ", ".join(f"{int(count)} {printable(reason)}" for reason, count in sender["counts"].items())
        age = format_duration(float(sender["age_s"]))
        yield Text(f"{printable(sender['source'])}{claimed}{key}: {counts}, last {age} ago", "red")
        yield Text(f"  {printable(sender['reason'])}: {printable(sender['advice'])}", "dim")
    if len(senders) > MOST_SENDERS:
        yield Text(f"... and {len(senders) - MOST_SENDERS} more; --json shows all", "dim")


def _pool(pool: Mapping[str, Any], members: Sequence[Mapping[str, Any]], top: int, now: float) -> list[Table | Text]:
    """Return the table of a pool and the lines below it. ``now`` is in Unix seconds."""
    shown = members[:top] if top else members
    lines = []
    if len(shown) < len(members):
        hidden = len(members) - len(shown)
        lines.append(Text(f"{counted(hidden, 'more member')} not shown; use --top 0 to show all", "bold"))
    return [_table(pool, shown), *lines, *other_notes(members, now), *_shadows(pool)]


def _table(pool: Mapping[str, Any], members: Sequence[Mapping[str, Any]]) -> Table:
    asked = ", ".join(map(printable, pool["policies"]))
    title = Text(f"pool {printable(pool['name'])} in zone {printable(pool['zone'] or '.')}, names {asked}")
    if pool["fail_open"]:
        why = printable(pool.get("fail_open_reason") or "no member is usable")
        title.append(f"\nfail open ({why}): lbdns selects from all members that are not drained", "bold red")
    if (backup := pool.get("backup")) and backup["share"]:  # absent in older servers
        share = f"{100 * float(backup['share']):.0f} % to {printable(backup['pool'])}"
        title.append(f"\n{printable(backup['why'])}: {share}", "bold yellow")
    for line in site_lines(pool, all_orders=False):
        title.append("\n").append_text(line)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0))
    table.title, table.title_justify, table.title_style = title, "left", ""
    table.add_column("member", overflow="fold", min_width=12)
    table.add_column("state", no_wrap=True)
    for heading in ("score", "age s", "share", "cap", *(heading for heading, _, _ in METRICS)):
        table.add_column(heading, justify="right", no_wrap=True)
    for member in members:
        metrics = member["metrics"]
        table.add_row(
            Text(printable(member["name"])),
            state_text(member),
            number(member["score"]),
            number(member["age_s"], 1),
            percent(member["share"]),
            percent(member.get("capacity_share")),  # absent in older servers
            *(number(metrics.get(metric), decimals) for _, metric, decimals in METRICS),
        )
    return table


def _shadows(pool: Mapping[str, Any]) -> Iterator[Text]:
    """Yield a line for each shadow policy."""
    for tried in pool.get("shadow", ()):  # absent in older servers
        score = f" with score {printable(tried['score'])}" if tried["score"] else ""
        count, total = int(tried["diverted"]), sum(map(int, tried["answers"].values()))
        policy, shadow = printable(tried["policy"]), printable(tried["shadow"])
        what = f"{count} of {total} answers ({float(tried['diverted_share']):.0%})"
        yield Text(f"shadow of {policy}: {shadow}{score} would have named another member in {what}")
