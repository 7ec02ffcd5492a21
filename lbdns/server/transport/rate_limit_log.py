"""The rate limit log: warns about rate-limited clients, at most once a minute."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from lbdns.answering.responder import Responder

log = logging.getLogger("lbdns.server")

EVERY: Final = 60.0  # s between log lines


class RateLimitLog:
    """Logs the rate limit counters of a responder whenever they have grown."""

    def __init__(self, responder: Responder, every: float = EVERY) -> None:
        self._responder = responder
        self._every = every
        self._logged = (0, 0)
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the counters every ``every`` seconds. Call ``stop`` to end this."""
        self._timer = loop.call_later(self._every, self._run, loop)

    def stop(self) -> None:
        """Log what has not been logged yet, and stop."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
            self._log_growth()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self._log_growth()
        self.start(loop)

    def _log_growth(self) -> None:
        counters = self._responder.counters()
        now = counters["rate_limit_dropped"], counters["rate_limit_cut"]
        dropped, truncated = (count - before for count, before in zip(now, self._logged, strict=True))
        self._logged = now
        if dropped or truncated:
            log.warning(
                "rate limit: %d responses dropped, %d truncated, the last one to %s. "
                "If this is not an attack, add the network to [rate_limit] exempt or raise responses_per_second",
                dropped, truncated, self._responder.limiter.last,
            )  # fmt: skip
