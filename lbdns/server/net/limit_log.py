"""Says in the log that somebody is being limited: one line a minute at most, whatever the flood."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from lbdns.answering.respond import Responder

log = logging.getLogger("lbdns.server")

EVERY: Final = 60.0  # s between looks


class LimitLog:
    """Looks at the counters of a responder."""

    def __init__(self, responder: Responder, every: float = EVERY) -> None:
        self._responder = responder
        self._every = every
        self._told = (0, 0)
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look now and then from now on, until ``stop``."""
        self._timer = loop.call_later(self._every, self._look, loop)

    def stop(self) -> None:
        """Say what has not been said yet, and look no more."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
            self._tell()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._tell()
        self.start(loop)

    def _tell(self) -> None:
        counters = self._responder.counters()
        now = counters["rate_limit_dropped"], counters["rate_limit_cut"]
        dropped, cut = (count - before for count, before in zip(now, self._told, strict=True))
        self._told = now
        if dropped or cut:
            log.warning(
                "rate limit: %d responses dropped, %d cut to 'ask over TCP', the last one to %s. "
                "If that is no attack: [rate_limit] exempt, or a higher responses_per_second",
                dropped, cut, self._responder.limiter.last,
            )  # fmt: skip
