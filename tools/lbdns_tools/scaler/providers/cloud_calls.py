"""Runs the blocking calls of a cloud's SDK in threads, with time-outs and retries, and raises lbdns errors."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NoReturn, TypeVar

from lbdns_shared.errors import ConfigError
from lbdns_tools.scaler.providers.provider import ProviderError

OWNER_TAG: Final = "lbdns-scaler"  # key of the metadata or tag that contains the farm's name
_THREADS: Final = 4  # requests at the same time
_PAUSES: Final = (0.5, 2.0)  # s before the second and third attempt
_SLACK: Final = 5.0  # s beyond the HTTP time-outs, which do not cover everything, such as the resolution of names

T = TypeVar("T")


class CloudCalls:
    """Runs calls to one cloud in threads. ``translate`` returns the ProviderError for an exception of the SDK, or None.

    ``transient`` returns True if a retry may succeed, as after a time-out, a lost connection or a server error.
    """

    def __init__(
        self,
        cloud: str,
        timeout: float,
        translate: Callable[[Exception], ProviderError | None],
        transient: Callable[[Exception], bool],
        pauses: Sequence[float] = _PAUSES,
    ) -> None:
        self._cloud, self._timeout, self._pauses = cloud, timeout, tuple(pauses)
        self._translate, self._transient = translate, transient
        self._executor = ThreadPoolExecutor(_THREADS, f"lbdns-{cloud}")

    async def idempotent(self, function: Callable[[], T], requests: int = 1) -> T:
        """Call a function that may safely run several times. Retry it after transient failures."""
        for pause in self._pauses:
            try:
                return await self._in_thread(function, requests)
            except Exception as error:
                if not self._transient(error):
                    self._raise(error)
            await asyncio.sleep(pause)
        return await self.once(function, requests)

    async def once(self, function: Callable[[], T], requests: int = 1) -> T:
        """Call a function once. ``requests`` is the maximum number of HTTP requests that it makes."""
        try:
            return await self._in_thread(function, requests)
        except Exception as error:
            self._raise(error)

    def close(self) -> None:
        """Cancel all calls that have not started. Each call in progress continues until it completes or times out."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, function: Callable[[], T], requests: int) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._executor, function)
        seconds = self._timeout * requests + _SLACK
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError as error:
            if future.cancelled():
                raise ProviderError(f"{self._cloud}: no response within {seconds:g} s") from None
            raise error

    def _raise(self, error: Exception) -> NoReturn:
        """Raise the ProviderError that ``translate`` returns for an exception, or else the exception itself."""
        translated = self._translate(error)
        if translated is None:
            raise error
        raise translated from error


def need_package(package: str, distribution: str, extra: str) -> None:
    """Raise ConfigError if a package is not installed; the message contains the command that installs it."""
    if importlib.util.find_spec(package) is None:
        raise ConfigError(
            f"[provider] kind: {extra!r} requires the package {distribution}; run pip install 'lbdns-tools[{extra}]'"
        )
