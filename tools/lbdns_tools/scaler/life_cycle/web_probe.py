"""Requests pages from one server: a single page to learn whether it responds, or a burst to measure its capacity."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import aiohttp

from lbdns.config import value_readers as read
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError

TIMEOUT: Final = 5.0  # seconds for one request


class ProbeError(LbdnsError):
    """A server does not respond as expected."""


@dataclass(frozen=True, slots=True)
class BenchmarkSettings:
    """The section ``[benchmark]`` of scaler.toml: a burst of requests that measures a new server's capacity."""

    seconds: float = read.number(2.0, 0.1, 60.0)
    clients: int = read.integer(8, 1, 256)  # requests in progress at the same time
    at_least: float = read.number(0.0, 0.0, 1e9)  # requests/s; a slower server is replaced; 0: none is too slow
    path: str = read.string("/")


class WebProbe:
    """Requests pages over HTTP from a server's first address."""

    def __init__(self, port: int, path: str, host: str, benchmark: BenchmarkSettings | None) -> None:
        """``host`` is the value of the Host header; empty means the server's address."""
        self._port, self._path, self._host, self.settings = port, path, host, benchmark

    async def probe(self, addresses: tuple[str, ...]) -> None:
        """Request the page once. Raises ProbeError unless the response has a status below 400."""
        async with self._session(addresses) as session:
            await self._get(session, self._path)

    async def benchmark(self, addresses: tuple[str, ...]) -> float:
        """Request pages with several clients at once for a few seconds, and return the responses per second.

        Raises ProbeError if a request fails.
        """
        settings = self.settings or BenchmarkSettings()
        async with self._session(addresses) as session:
            began = time.monotonic()
            end = began + settings.seconds

            async def client() -> int:
                count = 0
                while time.monotonic() < end:
                    await self._get(session, settings.path)
                    count += 1
                return count

            counts = await asyncio.gather(*(client() for _ in range(settings.clients)))
            return sum(counts) / (time.monotonic() - began)

    def _session(self, addresses: tuple[str, ...]) -> aiohttp.ClientSession:
        if not addresses:
            raise ProbeError("the server has no address yet")
        base = f"http://{Endpoint(addresses[0], self._port)}"
        headers = {"Host": self._host} if self._host else {}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        # No limit on connections: each client of a benchmark has one; no proxy: servers are in the own network
        return aiohttp.ClientSession(
            base, headers=headers, timeout=timeout, connector=aiohttp.TCPConnector(limit=0), trust_env=False
        )

    async def _get(self, session: aiohttp.ClientSession, path: str) -> None:
        try:
            async with session.get(path, allow_redirects=False) as response:
                async for _ in response.content.iter_any():
                    pass  # the whole page, which ends within TIMEOUT
                if response.status >= 400:
                    raise ProbeError(f"GET {path}: status {response.status}")
        except TimeoutError:
            raise ProbeError(f"GET {path}: no response within {TIMEOUT:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ProbeError(f"GET {path}: {str(error) or type(error).__name__}") from None
