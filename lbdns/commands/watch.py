"""``lbdns watch``: what happens on a running server, a line an event."""

from __future__ import annotations

import contextlib
import json
import select
import time
from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
from rich.console import Console

from lbdns.commands.options import config_option
from lbdns.commands.status import place_of
from lbdns.commands.terminal.feed import LONGEST_PAUSE, Feed
from lbdns.commands.terminal.printable import event_line
from lbdns.duration import parse_duration
from lbdns.errors import LbdnsError
from lbdns.events import KEPT, KINDS
from lbdns.http_client import EVENTS, fetch
from lbdns.http_credentials import Credentials

LOG: Final = "/api/v1/log"
ONLY_LOG: Final = f"{EVENTS}?only=log"
LOOK: Final = 1.0  # s between looks at what happened, while the stream may not be open
REMEMBERED: Final = 2000  # events by which another telling of the same one is known


class _Since(click.ParamType[float]):
    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(epilog="Exit status: 0 when Ctrl-C ended it, 1 when no server was there, 2 for bad arguments.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), metavar="KIND",
              help=f"Only events of this kind; can be given several times. Kinds: {', '.join(KINDS)}.")  # fmt: skip
@click.option("--since", type=_Since(), metavar="SPAN", help="Begin with what happened in that time, such as 10m.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as JSON on one line.")
@click.option("--url", help="Where its HTTP is, such as http://127.0.0.1:8053; asks there instead of reading FILE.")
@config_option
def watch(kinds: tuple[str, ...], since: float | None, as_json: bool, url: str | None, config: Path) -> None:
    """Print what happens on a running server, as it happens: members that fall silent, drains, reloads, failures.

    Goes on until Ctrl-C, also over restarts of the server.

    \b
    Examples:
      lbdns watch
      lbdns watch --since 10m --kind state --kind override
    """
    base, credentials = place_of(url, config)
    printer = _Printer(frozenset(kinds), as_json)
    last = time.time()
    try:
        _print_log(base, credentials, last - since if since is not None else last, printer)
        _follow(base, credentials, last, printer)
    except KeyboardInterrupt:
        pass  # the way to end it


class _Printer:
    """Prints events of the wanted kinds, each once."""

    def __init__(self, kinds: Collection[str], as_json: bool) -> None:
        self._kinds, self._as_json = kinds, as_json
        self._printed: deque[tuple[object, ...]] = deque(maxlen=REMEMBERED)
        self._console = Console(highlight=False, soft_wrap=True)
        self.last = 0.0  # when the newest event was, Unix seconds

    def show(self, event: Mapping[str, Any]) -> None:
        """Raises KeyError, TypeError or ValueError if it is none."""
        line = event_line(event)
        # Not by its id: that begins anew with the server, and the history counts for itself
        what = tuple(event[key] for key in ("time", "kind", "pool", "member", "text"))
        self.last = max(self.last, float(event["time"]))
        if what in self._printed or (self._kinds and event["kind"] not in self._kinds):
            return
        self._printed.append(what)
        if self._as_json:
            click.echo(json.dumps(event))
        else:
            self._console.print(line)


def _print_log(base: str, credentials: Credentials, since: float, printer: _Printer) -> None:
    query = urlencode({"since": f"{since:.6f}", "limit": KEPT})
    try:
        for event in json.loads(fetch(base, f"{LOG}?{query}", credentials))["events"]:
            printer.show(event)
    except (KeyError, TypeError, ValueError) as error:
        raise LbdnsError(f"{base}: what answers there is not lbdns: no events in its {LOG}: {error!r}") from None


def _follow(base: str, credentials: Credentials, begin: float, printer: _Printer) -> None:
    """Print what the stream tells. While it isn't known to be open, what it may have missed is looked up."""
    feed, failures, is_said = Feed(base, ONLY_LOG, credentials), 0, False
    next_look = settled = time.monotonic() + LOOK
    while True:
        now = time.monotonic()
        select.select([feed.descriptor], [], [], max(0.0, next_look - now) if next_look <= settled else None)
        _, events = feed.take()
        for event in events:
            printer.show(_read(base, event))
        now = time.monotonic()
        if feed.failures != failures:
            failures, settled = feed.failures, now + LONGEST_PAUSE + 3 * LOOK  # by then it has been tried again
            next_look = now + LOOK
            if not is_said:
                click.echo(f"{feed.trouble}; trying again", err=True)
            is_said = True
        elif now >= next_look <= settled:
            next_look = now + LOOK
            with contextlib.suppress(LbdnsError):
                _print_log(base, credentials, max(begin, printer.last - LOOK), printer)
                is_said = False


def _read(base: str, event: bytes) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(event)
    except ValueError as error:
        raise LbdnsError(f"{base}: what answers there is not lbdns: no event: {error}") from None
    return found
