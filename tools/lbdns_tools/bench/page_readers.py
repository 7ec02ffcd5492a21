"""Helper processes for the benchmark ``page``: HTTP clients that never pause, a dummy server, and a farm's agents.

The dummy server reproduces the HTTP responses/s of lbdns, but serves no DNS.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from lbdns_shared.keys import read_key_file
from lbdns_tools.bench.dns.benchmark_farm import send_reports

PAGES: Final = ("/api/v1/status", "/", "/api/v1/status", "/css/base.css")
KEEPERS: Final = 16  # readers with one connection for all pages
RECONNECTERS: Final = 16  # readers with a new connection for each page
FOLLOWERS: Final = 16  # open event streams
#: Answers that the dummy sends without a delay, like a server that is still idle
AT_ONCE: Final = 2 * (KEEPERS + RECONNECTERS)
PATIENCE: Final = 30.0  # seconds a page may take
COUNT_EVERY: Final = 0.25  # seconds from one line of counters to the next
REFUSED: Final = 0.05  # seconds until a refused reader tries again


class PageReaders:
    """HTTP clients that request the next page immediately after each response."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.counts: Counter[str] = Counter({"answers": 0, "answer_bytes": 0, "refused": 0, "cut": 0, "event_bytes": 0})

    async def run(self) -> None:
        counting = asyncio.create_task(self._print_counts())
        readers = [self._keep] * KEEPERS + [self._reconnect] * RECONNECTERS + [self._follow] * FOLLOWERS
        await asyncio.gather(*(self._repeat(reader, number) for number, reader in enumerate(readers)))
        counting.cancel()

    async def _print_counts(self) -> None:
        while True:
            print(json.dumps({"time": time.monotonic(), **self.counts}), flush=True)
            await asyncio.sleep(COUNT_EVERY)

    async def _repeat(self, reader: Callable[[int], Awaitable[None]], number: int) -> None:
        while True:
            try:
                async with asyncio.timeout(None if reader == self._follow else PATIENCE):
                    await reader(number)
            except (OSError, EOFError, ValueError):
                self.counts["cut"] += 1
                await asyncio.sleep(REFUSED)

    async def _keep(self, number: int) -> None:
        streams = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.closing(streams[1]):
            for page in itertools.islice(itertools.cycle(PAGES), number, None):
                async with asyncio.timeout(PATIENCE):
                    await self._get(*streams, page)

    async def _reconnect(self, number: int) -> None:
        streams = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.closing(streams[1]):
            await self._get(*streams, PAGES[number % len(PAGES)])

    async def _get(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, page: str) -> None:
        writer.write(f"GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(size)
        if head.startswith(b"HTTP/1.1 200"):
            self.counts["answers"] += 1
            self.counts["answer_bytes"] += size
        else:
            self.counts["refused"] += 1
            raise EOFError

    async def _follow(self, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.closing(writer):
            writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while piece := await reader.read(2**16):
                self.counts["event_bytes"] += len(piece)


class DummyServer:
    """A server that sends ``rate`` responses/s of ``size`` bytes, and event streams totalling ``stream_rate`` bytes/s.

    The server sends the first AT_ONCE responses without a delay.
    """

    def __init__(self, rate: float, size: int, stream_rate: float) -> None:
        self._pause, self._size, self._stream_rate = 1 / max(rate, 0.1), size, stream_rate
        self._due = 0.0
        self._answered = 0

    async def run(self, port: int) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, EOFError):
            while True:
                if b"/events" in await reader.readuntil(b"\r\n\r\n"):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
                    await self._stream(writer)
                self._answered += 1
                if self._answered > AT_ONCE:
                    now = time.monotonic()
                    self._due = max(self._due + self._pause, now)
                    await asyncio.sleep(self._due - now)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self._size + bytes(self._size))
                await writer.drain()

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        gap = 0.5
        while True:
            writer.write(b":" * max(1, int(self._stream_rate * gap / FOLLOWERS)))
            await writer.drain()
            await asyncio.sleep(gap)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("readers", "dummy", "agents"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rate", type=float, default=100.0, help="responses/s of the dummy server")
    parser.add_argument("--size", type=int, default=1000, help="size of the dummy server's responses, in bytes")
    parser.add_argument(
        "--stream-rate", type=float, default=1000.0, help="total bytes/s of the dummy server's event streams"
    )
    parser.add_argument("--key-file", type=Path)
    parser.add_argument("--hosts", type=Path, help="file with one host name per line")
    options = parser.parse_args()
    if options.part == "agents":
        key = read_key_file(options.key_file)[0].masters[0]
        send_reports(options.port, key, options.hosts.read_text().split(), threading.Event())
        return 0
    dummy = DummyServer(options.rate, options.size, options.stream_rate)
    work = PageReaders(options.port).run() if options.part == "readers" else dummy.run(options.port)
    asyncio.run(_until_sigterm(work))
    return 0


async def _until_sigterm(work: Awaitable[None]) -> None:
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    sys.exit(main())
