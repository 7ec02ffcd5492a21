"""Queries upstreams one after another, over UDP or TCP, and checks their responses (RFC 5452)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lbdns.answering.relayed_query import CASE_BITS, UpstreamQuestion, upstream_query
from lbdns.answering.upstream_response import UpstreamResponse, read_upstream_response, same_case
from lbdns_shared.endpoint import Endpoint

TRY: Final = 1.5  # s to wait for one answer; resolvers with a cold cache answer within 1 s
TOTAL: Final = 4.5  # s for all attempts at one question together; the C library waits for 5 s
PROBE_AFTER: Final = 10.0  # s until an upstream that didn't answer is probed while others answer
MAX_WRONG: Final = 16  # wrong datagrams to ignore; more suggest an attack, and TCP can't be forged blindly
_MAX_DATAGRAM: Final = 65_535  # bytes


@dataclass(slots=True, eq=False)
class _Upstream:
    endpoint: Endpoint
    probe_at: float | None = None  # on the loop's clock; set while the upstream does not answer


class Upstreams:
    """Queries the upstreams in the configured order, except that unresponsive upstreams come last."""

    def __init__(self, endpoints: Iterable[Endpoint], counters: Counter[str]) -> None:
        self._upstreams = [_Upstream(endpoint) for endpoint in endpoints]
        self._counters = counters
        self._probes: set[asyncio.Task[None]] = set()

    async def ask(self, question: UpstreamQuestion) -> UpstreamResponse | None:
        """Return the first successful response.

        If all responses are failures, return the first one; if no upstream responds, return None.

        An upstream that refuses the question or can't be reached is queried only once. An upstream that times out is
        queried again until TOTAL seconds have passed.
        """
        failure: UpstreamResponse | None = None
        try:
            async with asyncio.timeout(TOTAL):
                waiting = deque(self._in_order(question))
                while waiting:
                    upstream = waiting.popleft()
                    try:
                        response = await self._ask_one(upstream, question)
                    except TimeoutError:
                        waiting.append(upstream)
                        continue
                    except OSError:
                        continue
                    if not response.failed:
                        return response
                    failure = failure or response
        except TimeoutError:
            pass
        return failure

    def stop(self) -> None:
        for probe in self._probes:
            probe.cancel()

    def _in_order(self, question: UpstreamQuestion) -> list[_Upstream]:
        """Return the upstreams, with silent upstreams last.

        Start any upstream probes that are due, without waiting for their results.
        """
        answering = [upstream for upstream in self._upstreams if upstream.probe_at is None]
        silent = [upstream for upstream in self._upstreams if upstream.probe_at is not None]
        if answering:
            now = asyncio.get_running_loop().time()
            for upstream in silent:
                if upstream.probe_at is not None and upstream.probe_at <= now:
                    upstream.probe_at = now + PROBE_AFTER
                    probe = asyncio.create_task(self._probe(upstream, question))
                    self._probes.add(probe)
                    probe.add_done_callback(self._probes.discard)
        return answering + silent

    async def _probe(self, upstream: _Upstream, question: UpstreamQuestion) -> None:
        with contextlib.suppress(OSError):
            await self._ask_one(upstream, question)

    async def _ask_one(self, upstream: _Upstream, question: UpstreamQuestion) -> UpstreamResponse:
        """Query one upstream and return its response. Raises TimeoutError, or another OSError if the query fails."""
        try:
            async with asyncio.timeout(TRY):
                response = await self._over_udp(upstream.endpoint, question)
            if response is None:
                self._counters["over_tcp"] += 1
                async with asyncio.timeout(TRY):
                    response = await self._over_tcp(upstream.endpoint, question)
        except OSError as error:
            self._counters["timeouts" if isinstance(error, TimeoutError) else "unreachable"] += 1
            upstream.probe_at = asyncio.get_running_loop().time() + PROBE_AFTER
            raise
        upstream.probe_at = None
        return response

    async def _over_udp(self, endpoint: Endpoint, question: UpstreamQuestion) -> UpstreamResponse | None:
        """Send one datagram and return the response, or None if the question must be repeated over TCP."""
        query = _query(question)
        # Each question gets a new socket, so its port is unpredictable. It is connected: the kernel drops datagrams
        # from other senders
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.connect((endpoint.host, endpoint.port))
            sock.send(query)
            for _ in range(MAX_WRONG):
                message = await asyncio.get_running_loop().sock_recv(sock, _MAX_DATAGRAM)
                response = read_upstream_response(query, message)
                if response and same_case(query, message):
                    return None if response.truncated else response
                self._counters["ignored"] += 1
                if response:
                    break  # the letter case differs: the server does not keep it, or the answer is forged
        return None

    async def _over_tcp(self, endpoint: Endpoint, question: UpstreamQuestion) -> UpstreamResponse:
        """Query an upstream over a new connection and return the response.

        Raises OSError if the query fails or the reply does not match the question.
        """
        query = _query(question)
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        try:
            writer.write(len(query).to_bytes(2, "big") + query)
            length = int.from_bytes(await reader.readexactly(2), "big")
            response = read_upstream_response(query, await reader.readexactly(length))
        except EOFError:
            raise ConnectionResetError(f"{endpoint} closed the connection without answering") from None
        finally:
            writer.transport.abort()
        if response is None:
            self._counters["ignored"] += 1
            raise ConnectionAbortedError(f"{endpoint} sent a TCP message that does not answer the question")
        return response


def _query(question: UpstreamQuestion) -> bytes:
    return upstream_query(question, secrets.token_bytes(2), secrets.randbits(CASE_BITS))
