"""Asking upstreams: which one, over UDP or TCP, how long, and what to believe (RFC 5452)."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lbdns.answering.heard import Heard, hear, same_case
from lbdns.answering.relay import CHANCE_BITS, Question, ask
from lbdns.endpoint import Endpoint

TRY: Final = 1.5  # s for one answer; resolvers that have to look far answer within one
TOTAL: Final = 4.5  # s for a question in all: the C library waits for 5
PROBE_AFTER: Final = 10.0  # s until an upstream that didn't answer is asked again while others do
MAX_WRONG: Final = 16  # datagrams that are no answer: then somebody is guessing, and TCP can't be guessed
_MAX_DATAGRAM: Final = 65_535  # bytes


@dataclass(slots=True, eq=False)
class _Upstream:
    """One server. ``probe_at`` (loop's clock) is set while it is suspected of being away."""

    endpoint: Endpoint
    probe_at: float | None = None


class Upstreams:
    """Servers that are asked in the order in which they are configured; those that don't answer come last."""

    def __init__(self, endpoints: Iterable[Endpoint], counters: Counter[str]) -> None:
        self._upstreams = [_Upstream(endpoint) for endpoint in endpoints]
        self._counters = counters
        self._probes: set[asyncio.Task[Heard | None]] = set()

    async def ask(self, question: Question) -> Heard | None:
        """The answer of the first upstream that has one; else the first failure; None if none was heard.

        Who refuses or can't be reached is not asked twice; who is late is, as long as there is time.
        """
        failure: Heard | None = None
        try:
            async with asyncio.timeout(TOTAL):
                waiting = deque(self._in_order(question))
                while waiting:
                    upstream = waiting.popleft()
                    try:
                        heard = await self._ask_one(upstream, question)
                    except TimeoutError:
                        waiting.append(upstream)
                        continue
                    except OSError:
                        continue
                    if not heard.failed:
                        return heard
                    failure = failure or heard
        except TimeoutError:
            pass
        return failure

    def stop(self) -> None:
        for probe in self._probes:
            probe.cancel()

    def _in_order(self, question: Question) -> list[_Upstream]:
        """Those that answer, then those that didn't lately. Whether one of these is back, nobody has to wait for."""
        well = [upstream for upstream in self._upstreams if upstream.probe_at is None]
        away = [upstream for upstream in self._upstreams if upstream.probe_at is not None]
        if well:
            now = asyncio.get_running_loop().time()
            for upstream in away:
                if upstream.probe_at is not None and upstream.probe_at <= now:
                    upstream.probe_at = now + PROBE_AFTER
                    probe = asyncio.create_task(self._probe(upstream, question))
                    self._probes.add(probe)
                    probe.add_done_callback(self._probes.discard)
        return well + away

    async def _probe(self, upstream: _Upstream, question: Question) -> Heard | None:
        try:
            return await self._ask_one(upstream, question)
        except OSError:
            return None

    async def _ask_one(self, upstream: _Upstream, question: Question) -> Heard:
        """What one upstream says. Raises TimeoutError, or another OSError if it can't be reached."""
        try:
            async with asyncio.timeout(TRY):
                heard = await self._over_udp(upstream.endpoint, question)
            if heard is None:
                self._counters["over_tcp"] += 1
                async with asyncio.timeout(TRY):
                    heard = await self._over_tcp(upstream.endpoint, question)
        except OSError as error:
            self._counters["timeouts" if isinstance(error, TimeoutError) else "unreachable"] += 1
            upstream.probe_at = asyncio.get_running_loop().time() + PROBE_AFTER
            raise
        upstream.probe_at = None
        return heard

    async def _over_udp(self, endpoint: Endpoint, question: Question) -> Heard | None:
        """The answer to one datagram; None if it is to be had over TCP alone.

        Each has a socket of its own, so that the kernel chooses a port that nobody can know, and is connected: what
        comes from another address or port is not heard.
        """
        asked = _query(question)
        with socket.socket(_family(endpoint), socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.connect((endpoint.host, endpoint.port))
            sock.send(asked)
            for _ in range(MAX_WRONG):
                message = await asyncio.get_running_loop().sock_recv(sock, _MAX_DATAGRAM)
                heard = hear(asked, message)
                if heard and same_case(asked, message):
                    return None if heard.cut else heard
                self._counters["ignored"] += 1
                if heard:
                    break  # right but for the letter case: a server that doesn't keep it, or a good guess
        return None

    async def _over_tcp(self, endpoint: Endpoint, question: Question) -> Heard:
        """The answer over a connection of its own. Raises OSError, also if what comes is no answer."""
        asked = _query(question)
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        try:
            writer.write(len(asked).to_bytes(2, "big") + asked)
            length = int.from_bytes(await reader.readexactly(2), "big")
            heard = hear(asked, await reader.readexactly(length))
        except EOFError:
            raise ConnectionResetError(f"{endpoint} closed the connection before its answer") from None
        finally:
            writer.transport.abort()
        if heard is None:
            self._counters["ignored"] += 1
            raise ConnectionAbortedError(f"{endpoint} answered something else over TCP")
        return heard


def _query(question: Question) -> bytes:
    return ask(question, secrets.token_bytes(2), secrets.randbits(CHANCE_BITS))


def _family(endpoint: Endpoint) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
