"""``lbdns watch``: print the events of a running server, one per line."""

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

from lbdns.client.event_feed import LONGEST_PAUSE, EventFeed
from lbdns.client.http_client import EVENTS_PATH, HttpLocation, fetch
from lbdns.client.server_location import http_location
from lbdns.command_line.common_options import DURATION, config_option, url_option
from lbdns.commands.terminal.printable import event_line
from lbdns.events.event_log import EVENT_KINDS, KEPT
from lbdns_shared.errors import LbdnsError

LOG: Final = "/api/v1/log"
ONLY_LOG: Final = f"{EVENTS_PATH}?only=log"
LOOK: Final = 1.0  # s between reads of the event log while the stream may be closed
REMEMBERED: Final = 2000  # newest events, kept to recognise duplicates


@click.command(
    epilog="Exit status: 0 after Ctrl-C, 1 if the server does not respond initially, 2 on invalid arguments."
)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(EVENT_KINDS), metavar="KIND",
              help=f"Print only events of this kind. Can be repeated. Kinds: {', '.join(EVENT_KINDS)}.")  # fmt: skip
@click.option("--since", type=DURATION, help="First, print the events of the last DURATION, such as 10min.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as one line of JSON.")
@url_option
@config_option
def watch(kinds: tuple[str, ...], since: float | None, as_json: bool, url: str | None, config: Path) -> None:
    """Print the events of a running server, such as drains, reloads and failures, as they happen.

    The command runs until you press Ctrl-C, and reconnects when the server restarts.

    \b
    Examples:
      lbdns watch
      lbdns watch --since 10m --kind state --kind override
    """
    server = http_location(url, config)
    printer = _Printer(frozenset(kinds), as_json)
    last = time.time()
    try:
        _print_log(server, last - since if since is not None else last, printer)
        _follow(server, last, printer)
    except KeyboardInterrupt:
        pass  # the usual way to stop it


class _Printer:
    """A printer that prints each event of the requested kinds once."""

    def __init__(self, kinds: Collection[str], as_json: bool) -> None:
        self._kinds, self._as_json = kinds, as_json
        self._printed: deque[tuple[object, ...]] = deque(maxlen=REMEMBERED)
        self._console = Console(highlight=False, soft_wrap=True)
        self.last = 0.0  # time of the newest event, Unix seconds

    def show(self, event: Mapping[str, Any]) -> None:
        """Print an event document. Raises KeyError, TypeError or ValueError if the document is not an event."""
        line = event_line(event)
        # Events are not compared by id: ids restart with the server, and the history has other ids
        what = tuple(event[key] for key in ("time", "kind", "pool", "member", "text"))
        self.last = max(self.last, float(event["time"]))
        if what in self._printed or (self._kinds and event["kind"] not in self._kinds):
            return
        self._printed.append(what)
        if self._as_json:
            click.echo(json.dumps(event))
        else:
            self._console.print(line)


def _print_log(server: HttpLocation, since: float, printer: _Printer) -> None:
    query = urlencode({"since": f"{since:.6f}", "limit": KEPT})
    try:
        for event in json.loads(fetch(server, f"{LOG}?{query}"))["events"]:
            printer.show(event)
    except (KeyError, TypeError, ValueError) as error:
        what = f"the response is not from lbdns: {LOG} returned no valid events: {error!r}"
        raise LbdnsError(f"{server.base}: {what}") from None


def _follow(server: HttpLocation, begin: float, printer: _Printer) -> None:
    """Print events from the stream. After a failed connection, read the missed events from the log."""
    feed, failures, announced = EventFeed(server, ONLY_LOG), 0, False
    next_look = settled = time.monotonic() + LOOK
    while True:
        now = time.monotonic()
        select.select([feed.descriptor], [], [], max(0.0, next_look - now) if next_look <= settled else None)
        _, events = feed.take()
        try:
            for event in map(json.loads, events):
                printer.show(event)
        except (KeyError, TypeError, ValueError) as error:
            what = f"the response is not from lbdns: its event stream is invalid: {error}"
            raise LbdnsError(f"{server.base}: {what}") from None
        now = time.monotonic()
        if feed.failures != failures:
            failures, settled = feed.failures, now + LONGEST_PAUSE + 3 * LOOK  # by then the feed has tried to reconnect
            next_look = now + LOOK
            if not announced:
                click.echo(f"{feed.trouble}; trying again", err=True)
            announced = True
        elif now >= next_look <= settled:
            next_look = now + LOOK
            with contextlib.suppress(LbdnsError):
                _print_log(server, max(begin, printer.last - LOOK), printer)
                announced = False
