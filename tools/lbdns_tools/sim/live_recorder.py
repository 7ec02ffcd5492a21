"""Records a running lbdns over HTTP: reports from the event stream, and answer counts from the status document."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import urlsplit

import aiohttp
import click

from lbdns.events.server_sent_events import ServerSentEventReader
from lbdns.model.snapshot import Reading
from lbdns.process.background_tasks import end_tasks
from lbdns.text.suggestions import nearest
from lbdns_collector.status.status_document import FOLLOWER_KEEP_ALIVE
from lbdns_collector.status.status_document_reading import read_status
from lbdns_shared import log as lbdns_log
from lbdns_shared.errors import ConfigError, LbdnsError
from lbdns_tools import __version__
from lbdns_tools.sim.recording_format import (
    RecordedAnswers,
    RecordedEvent,
    RecordedReport,
    Recording,
    RecordingHeader,
    event_line,
    header_line,
)  # fmt: skip

log = logging.getLogger("lbdns.sim.listen")

POLL: Final = 1.0  # s between reads of the answer counts, which the event stream does not contain
CONNECT_TIMEOUT: Final = 5.0  # s
DEAD_AFTER: Final = 3 * FOLLOWER_KEEP_ALIVE  # s without a byte after which a connection counts as dead
PAUSE: Final = 1.0  # s before another connection attempt
SAME_REPORT: Final = 0.1  # s; a report's times may differ by this (rounding, network); agents report less often


class LiveRecorder:
    """Records one pool: calls ``begin`` once with the header, and ``take`` for each event in chronological order."""

    def __init__(
        self,
        url: str,
        pool: str | None,
        begin: Callable[[RecordingHeader], None],
        take: Callable[[RecordedEvent], None],
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            hint = "specify the URL of a running lbdns, for example http://127.0.0.1:8053"
            raise ConfigError(f"{url!r} is not a valid URL; {hint}")
        self._url, self._pool = url.rstrip("/"), pool
        self._begin, self._take = begin, take
        self._members: tuple[str, ...] = ()
        self._by_full_name: dict[str, str] = {}
        self._seen: dict[str, Reading] = {}
        self._counts: dict[str, int] = {}
        self._latest = float("-inf")
        self._started = 0.0  # on the monotonic clock

    async def listen(self, stop: asyncio.Event, seconds: float | None = None) -> None:
        """Record until ``stop`` is set, or for at most ``seconds`` if specified.

        If the connection breaks, the recorder reconnects. Raises LbdnsError if the first response does not come from an
        lbdns server.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=DEAD_AFTER)
        headers = {"User-Agent": f"lbdns-sim/{__version__}"}
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session:
            try:
                self._open(await self._status(session))
            except (aiohttp.ClientError, OSError) as error:
                text = f"{self._url}: no response: {_reason(error)}. Is 'lbdns serve' running there?"
                raise LbdnsError(text) from None
            except ValueError as error:
                raise LbdnsError(f"{self._url}: the response is not from lbdns: {error}") from None
            tasks = [asyncio.create_task(self._follow(session)), asyncio.create_task(self._count(session))]
            try:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), seconds)
                tasks[1].cancel()
                with contextlib.suppress(aiohttp.ClientError, OSError, ValueError):
                    await self._poll(session)
            finally:
                await end_tasks(tasks)

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _open(self, status: Mapping[str, Any]) -> None:
        pool = _chosen(status, self._pool, self._url)
        zone = str(pool["zone"])
        self._members = tuple(str(member["name"]) for member in pool["members"])
        self._by_full_name = {f"{name}.{zone}" if zone else name: name for name in self._members}
        self._pool = str(pool["name"])
        self._counts = _answers(pool)
        self._started = time.monotonic()
        policies = dict(pool.get("policies", {}))
        self._begin(RecordingHeader(self._pool, zone, self._members, policies, round(time.time(), 3)))

    async def _status(self, session: aiohttp.ClientSession) -> dict[str, Any]:
        async with session.get(f"{self._url}/api/v1/status") as response:
            if response.status != 200:
                raise ValueError(f"/api/v1/status returned {response.status} {response.reason}")
            status = json.loads(await response.read())
        read_status(status, 0.0)  # raises ValueError unless it is a status document
        return dict(status)

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        while True:
            try:
                await self._read_events(session)
                trouble = "the server closed the connection"
            except (aiohttp.ClientError, OSError, ValueError) as error:
                trouble = _reason(error)
            log.warning("%s: %s; retrying", self._url, trouble)
            await asyncio.sleep(PAUSE)

    async def _read_events(self, session: aiohttp.ClientSession) -> None:
        events = ServerSentEventReader()
        async with session.get(f"{self._url}/api/v1/events", params={"changes": "1"}) as response:
            if response.status != 200 or response.content_type != "text/event-stream":
                raise ValueError(f"/api/v1/events returned {response.status} {response.content_type}")
            async for piece in response.content.iter_any():
                for event in events.feed(piece):
                    if event.name in ("status", "changes"):
                        self._take_reports(read_status(json.loads(event.data), self._now()))

    def _take_reports(self, readings: Mapping[str, Reading | None]) -> None:
        found = [(r.received, name, r) for name, r in readings.items() if r is not None and name in self._by_full_name]
        for received, name, reading in sorted(found, key=lambda item: item[:2]):
            before = self._seen.get(name)
            if before is not None and abs(before.received - received) < SAME_REPORT and _same(before, reading):
                continue
            self._seen[name] = reading
            # Times in a recording never decrease: a report that is read after a later count gets the time of that count
            recorded = replace(reading, received=max(received, self._latest))
            self._emit(RecordedReport(self._by_full_name[name], recorded))

    async def _count(self, session: aiohttp.ClientSession) -> None:
        due = self._now()
        while True:
            due += POLL
            await asyncio.sleep(max(0.0, due - self._now()))
            # The event stream logs the same failure
            with contextlib.suppress(aiohttp.ClientError, OSError, ValueError):
                await self._poll(session)

    async def _poll(self, session: aiohttp.ClientSession) -> None:
        status = await self._status(session)
        now = next((_answers(pool) for pool in status["pools"] if pool["name"] == self._pool), None)
        if now is None:
            return
        # A count that has decreased belongs to a restarted server
        more = [n - o if (n := now.get(m, 0)) >= (o := self._counts.get(m, 0)) else n for m in self._members]
        self._counts = now
        self._emit(RecordedAnswers(max(self._now(), self._latest), tuple(more)))

    def _emit(self, event: RecordedEvent) -> None:
        self._latest = event.time
        self._take(event)


def _same(one: Reading, other: Reading) -> bool:
    return (one.metrics, one.alarm, one.gone) == (other.metrics, other.alarm, other.gone)


def _chosen(status: Mapping[str, Any], name: str | None, url: str) -> Mapping[str, Any]:
    pools: Sequence[Mapping[str, Any]] = status["pools"]
    names = [str(pool["name"]) for pool in pools]
    if not pools:
        raise ConfigError(f"{url}: the server has no pools")
    if name is None:
        if len(pools) > 1:
            raise ConfigError(f"{url}: the server has several pools; specify one with --pool: {', '.join(names)}")
        return pools[0]
    if name not in names:
        raise ConfigError(f"{url}: there is no pool named {name!r}{nearest(name, names)}")
    return pools[names.index(name)]


def _answers(pool: Mapping[str, Any]) -> dict[str, int]:
    return {str(member["name"]): int(member.get("answers") or 0) for member in pool["members"]}


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def record_live(url: str, pool: str | None, seconds: float) -> Recording:
    """Record a running lbdns for ``seconds`` and return the recording. Raises LbdnsError."""
    headers: list[RecordingHeader] = []
    events: list[RecordedEvent] = []
    asyncio.run(LiveRecorder(url, pool, headers.append, events.append).listen(asyncio.Event(), seconds))
    return Recording(headers[0], tuple(events))


@click.command("record", short_help="Record the reports and answers of a running lbdns for later replay.")
@click.argument("url")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Duration of the recording in seconds. [default: until Ctrl-C or SIGTERM]",
)
@click.option("--pool", metavar="NAME", help="Name of the pool to record, required if the server has several pools.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def command(url: str, file: Path, seconds: float | None, pool: str | None, force: bool) -> None:
    """Record the reports and answers of a running lbdns until Ctrl-C or SIGTERM.

    For each report, the recorder writes one line to FILE. Once a second, the recorder writes a line with the number of
    answers per member. docs/reference/simulator.md describes the format. If the recorder is killed, FILE can still be
    replayed.

    \b
    Examples:
      lbdns-sim record http://127.0.0.1:8053 tuesday.jsonl --seconds 86400
      lbdns-sim --replay tuesday.jsonl --policy best,round_robin
    """
    lbdns_log.set_up("text", "info")
    writer = _RecordingWriter(file, force)
    try:
        asyncio.run(_record(url, pool, seconds, writer))
    finally:
        writer.close()
    click.echo(f"{file}: {writer.reports} reports and {writer.answers} answers in {writer.seconds:.1f} s", err=True)


async def _record(url: str, pool: str | None, seconds: float | None, writer: _RecordingWriter) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await LiveRecorder(url, pool, writer.begin, writer.take).listen(stop, seconds)


class _RecordingWriter:
    """Writes a recording file, which is created only after the first response has arrived."""

    def __init__(self, path: Path, force: bool) -> None:
        self._path, self._force = path, force
        self._file: TextIO | None = None
        self._members: tuple[str, ...] = ()
        self.reports = self.answers = 0
        self.seconds = 0.0
        if path.exists() and not force:
            raise ConfigError(f"{path}: the file already exists; use another name, or add --force")

    def begin(self, header: RecordingHeader) -> None:
        self._members = header.members
        try:
            # Line-buffered, so that the recording is complete even if this process is killed
            self._file = self._path.open("w" if self._force else "x", encoding="utf-8", buffering=1)
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot write the file: {error.strerror}") from None
        self._file.write(header_line(header))
        log.info("recording pool %s in %s", header.pool, self._path)

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
