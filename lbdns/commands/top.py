"""``lbdns top``: show a continuously updated view of the pool members, with sparklines of recent values."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from lbdns.client.event_feed import EventFeed
from lbdns.client.http_client import EVENTS_PATH, STATUS_PATH, fetch
from lbdns.client.server_location import http_location
from lbdns.command_line.common_options import config_option, url_option
from lbdns.commands.terminal.full_screen import Screen, demand_terminal
from lbdns.commands.terminal.sparklines import BLOCKS, LETTERS
from lbdns.commands.terminal.top_data import TopData
from lbdns.commands.terminal.top_layout import Size, frame
from lbdns.commands.terminal.top_view import View
from lbdns_shared.errors import LbdnsError

LOG: Final = "/api/v1/log?limit=50"
SHORTEST: Final = 0.1  # s between frames: faster than people can read


@click.command(
    epilog="Exit status: 0 after q or Ctrl-C, 1 if the server or terminal is unavailable, 2 on invalid arguments."
)
@click.option("--interval", type=click.FloatRange(SHORTEST, 60.0), default=1.0, show_default=True, metavar="SECONDS",
              help="Interval at which the screen and the sparklines are updated.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print one frame after one interval and exit. Does not require a terminal.")
@url_option
@config_option
def top(interval: float, once: bool, url: str | None, config: Path) -> None:
    """Show the state, score, share, answers and CPU use of each pool member, and the newest events.

    The command reconnects when the server restarts. Press q to quit, or ? to list all keys.

    \b
    Examples:
      lbdns top
      lbdns top --url http://127.0.0.1:8053 --interval 5
    """
    console = Console(highlight=False)
    if not once:
        demand_terminal(console)
    server = http_location(url, config)
    data = TopData()
    try:
        # At the start, a missing server is an error; later, the feed reconnects
        _take_status(data, fetch(server, STATUS_PATH))
        data.sample(time.monotonic())
        for event in json.loads(fetch(server, LOG))["events"]:
            data.take_event(event)
        if once:
            time.sleep(interval)
            _take_status(data, fetch(server, STATUS_PATH))
            data.sample(time.monotonic())
            for line in frame(data, View(), _size(console), time.monotonic()):
                console.print(line, soft_wrap=True)
        else:
            _follow(data, console, EventFeed(server, EVENTS_PATH), interval)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LbdnsError(
            f"{server.base}: the response is not from lbdns: {STATUS_PATH} returned no valid status: {error!r}"
        ) from None
    except (KeyboardInterrupt, EOFError):
        pass  # the usual ways to quit


def _take_status(data: TopData, document: bytes) -> None:
    data.take_status(json.loads(document), time.monotonic())


def _follow(data: TopData, console: Console, feed: EventFeed, interval: float) -> None:
    view, screen = View(), Screen(console, feed.descriptor)
    with screen.open(feed.wake):
        next_sample = time.monotonic()
        while not view.ended:
            now = time.monotonic()
            if now >= next_sample:
                _take_updates(data, feed)
                data.sample(now)
                next_sample = now + interval
            size = _size(console)
            screen.draw(frame(data, view, size, now))
            while not (keys := screen.keys(next_sample - time.monotonic())):
                # Updates wait for the next sample: a large farm sends about ten per second
                if time.monotonic() >= next_sample or _size(console) != size:
                    break
                feed.quiet()
            for key in keys:
                view.press(key, data)
    feed.close()


def _take_updates(data: TopData, feed: EventFeed) -> None:
    status, events = feed.take()
    if status is not None:
        _take_status(data, status)
    data.trouble = feed.trouble
    for event in events:
        data.take_event(json.loads(event))


def _size(console: Console) -> Size:
    has_blocks = console.encoding.lower().startswith("utf")
    return Size(console.width, console.height, BLOCKS if has_blocks else LETTERS)
