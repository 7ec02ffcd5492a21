"""The command ``lbdns-sim record``: write the reports and answers of a running lbdns to a file, for replays."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TextIO

import click

from lbdns_shared import log
from lbdns_shared.errors import ConfigError
from lbdns_tools.sim.live_recorder import LiveRecorder
from lbdns_tools.sim.recording_format import RecordedAnswers, RecordedEvent, RecordingHeader, event_line, header_line


@click.command("record", short_help="Record the reports and answers of a running lbdns, for replays.")
@click.argument("url")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after this many seconds.")
@click.option("--pool", metavar="NAME", help="The pool to record, if the server has several.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def command(url: str, file: Path, seconds: float | None, pool: str | None, force: bool) -> None:
    """Record the reports and answers of a running lbdns until Ctrl-C or SIGTERM.

    Writes a line to FILE for every report and for every second's answers (docs/reference/simulator.md describes the
    format). You can replay FILE even if the recorder was killed.

    \b
    Examples:
      lbdns-sim record http://127.0.0.1:8053 tuesday.jsonl --seconds 86400
      lbdns-sim --replay tuesday.jsonl --policy best,round_robin
    """
    log.set_up("text", "info")
    writer = _RecordingWriter(file, force)
    try:
        asyncio.run(_record(url, pool, seconds, writer))
    finally:
        writer.close()
    click.echo(f"{file}: {writer.reports} reports and {writer.answers} answers in {writer.seconds:.1f} s", err=True)


async def _record(url: str, pool: str | None, seconds: float | None, writer: _RecordingWriter) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await LiveRecorder(url, pool, writer.begin, writer.take).listen(stop, seconds)


class _RecordingWriter:
    """Writes a recording. It opens the file with the header, so a wrong URL leaves an existing file unchanged."""

    def __init__(self, path: Path, force: bool) -> None:
        self._path, self._force = path, force
        self._file: TextIO | None = None
        self._members: tuple[str, ...] = ()
        self.reports = self.answers = 0
        self.seconds = 0.0
        if path.exists() and not force:
            raise ConfigError(f"{path}: exists already; use another name, or --force")

    def begin(self, header: RecordingHeader) -> None:
        self._members = header.members
        try:
            # Line-buffered, so that the recording is complete even if this process is killed
            self._file = self._path.open("w" if self._force else "x", encoding="utf-8", buffering=1)
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be written: {error.strerror}") from None
        self._file.write(header_line(header))

    def take(self, event: RecordedEvent) -> None:
        assert self._file is not None, "the header comes first"
        self._file.write(event_line(event, self._members))
        self.seconds = max(self.seconds, event.time)
        if isinstance(event, RecordedAnswers):
            self.answers += sum(event.counts)
        else:
            self.reports += 1

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
