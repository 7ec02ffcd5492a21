"""``lbdns-sim record``: writes down what a running lbdns hears and answers, to be replayed."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TextIO

import click

from lbdns import log
from lbdns.errors import ConfigError
from lbdns_tools.sim.listen import Listener
from lbdns_tools.sim.recording import Answered, Event, Header, event_line, header_line


@click.command("record", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("url")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="End by itself after so many seconds.")
@click.option("--pool", metavar="NAME", help="Which pool, where there are several.")
@click.option("--force", is_flag=True, help="Write over FILE if it is there.")
def command(url: str, file: Path, seconds: float | None, pool: str | None, force: bool) -> None:
    """Record the reports and answers of a running lbdns until Ctrl-C or SIGTERM.

    Writes a line to FILE for every report and for every second's answers; see docs/simulator.md. What was written
    before the recorder ended, however it ended, can be replayed.

    \b
    Examples:
      lbdns-sim record http://127.0.0.1:8053 tuesday.jsonl --seconds 86400
      lbdns-sim --replay tuesday.jsonl --policy best,round_robin
    """
    log.set_up("text", "info")
    writer = _Writer(file, force)
    try:
        asyncio.run(_record(url, pool, seconds, writer))
    finally:
        writer.close()
    click.echo(
        f"{file}: {writer.reports} reports and {writer.answers} answers in {writer.seconds:.1f} s", file=sys.stderr
    )


async def _record(url: str, pool: str | None, seconds: float | None, writer: _Writer) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Listener(url, pool, writer.begin, writer.take).listen(stop, seconds)


class _Writer:
    """Opens the file when there is something to write: a URL that is wrong leaves what is there alone."""

    def __init__(self, path: Path, force: bool) -> None:
        self._path, self._force = path, force
        self._file: TextIO | None = None
        self._members: tuple[str, ...] = ()
        self.reports = self.answers = 0
        self.seconds = 0.0
        if path.exists() and not force:
            raise ConfigError(f"{path}: is there already; take another name, or say --force")

    def begin(self, header: Header) -> None:
        self._members = header.members
        try:
            # Line by line, so that what was heard is there whatever becomes of this process
            self._file = self._path.open("w" if self._force else "x", encoding="utf-8", buffering=1)
        except OSError as error:
            raise ConfigError(f"{self._path}: can't be written: {error.strerror}") from None
        self._file.write(header_line(header))

    def take(self, event: Event) -> None:
        assert self._file is not None, "the header comes first"
        self._file.write(event_line(event, self._members))
        self.seconds = max(self.seconds, event.time)
        if isinstance(event, Answered):
            self.answers += sum(event.counts)
        else:
            self.reports += 1

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
