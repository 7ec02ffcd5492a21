"""The rate limit log: warns about rate-limited clients, at most once a minute."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from lbdns.answering.responder import Responder

log = logging.getLogger("lbdns.server")

EVERY: Final = 60.0  # s between log lines


class RateLimitLog:
    """Logs increases of a responder's rate limit counters until ``stop`` is called.

    The event loop must be running when the instance is created.
    """

    def __init__(self, responder: Responder, every: float = EVERY) -> None:
        self._responder = responder
        self._every = every
        self._logged = (0, 0)
        self._timer = asyncio.get_running_loop().call_later(every, self._run)

    def stop(self) -> None:
        """Log any increase that has not been logged yet, and stop."""
        self._timer.cancel()
        self._log_growth()

    def _run(self) -> None:
        self._log_growth()
        self._timer = asyncio.get_running_loop().call_later(self._every, self._run)

    def _log_growth(self) -> None:
        counters = self._responder.counters()
        now = counters["rate_limit_dropped"], counters["rate_limit_cut"]
        dropped, truncated = (count - before for count, before in zip(now, self._logged, strict=True))
        self._logged = now
        if dropped or truncated:
            log.warning(
                "rate limit: %d responses dropped, %d truncated; the last such response was for %s. If this is not "
                "an attack, add the client's network to [rate_limit] exempt or raise responses_per_second",
                dropped, truncated, self._responder.limiter.last,
            )  # fmt: skip
