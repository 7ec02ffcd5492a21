"""The error counter: counts queries dropped because of a bug.

A bug that one query triggers must not affect any other query.
"""

from __future__ import annotations

import logging

log = logging.getLogger("lbdns.server")


class ErrorCounter:
    """Counts the queries on one socket that were not answered because an exception was raised."""

    def __init__(self) -> None:
        self.count = 0

    def report(self) -> None:
        """Count one query. Call this method in the exception handler. The first exception is logged with its traceback.

        Further exceptions are only counted, so that repeated queries cannot flood the log.
        """
        self.count += 1
        if self.count == 1:
            log.exception("a query triggered an exception and was dropped; further exceptions are only counted")
