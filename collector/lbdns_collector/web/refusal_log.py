"""The refusal log: logs refused HTTP connections and requests, with at most one line per minute for each reason."""

from __future__ import annotations

import logging
import time
from typing import Final

log = logging.getLogger("lbdns.web")

QUIET: Final = 60.0  # seconds between two log lines with the same reason


class RefusalLog:
    """A log of refusals, which counts those that are not logged."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}  # by reason, in monotonic seconds
        self._unlogged: dict[str, int] = {}

    def report(self, reason: str, what: str) -> None:
        """Log ``what`` unless a line with the same reason was logged within the last minute."""
        now = time.monotonic()
        if now < self._logged_at.get(reason, float("-inf")) + QUIET:
            self._unlogged[reason] = self._unlogged.get(reason, 0) + 1
            return
        others = self._unlogged.pop(reason, 0)
        more = f"; {others} others were refused since the last log line" if others else ""
        log.warning("refused: %s%s", what, more)
        self._logged_at[reason] = now
