"""Counting queries that made answering fail, so that a mistake of ours costs its query and nothing else."""

from __future__ import annotations

import logging

log = logging.getLogger("lbdns.server")


class Mistakes:
    """Queries of one socket that were dropped because answering them failed."""

    def __init__(self) -> None:
        self.count = 0

    def report(self) -> None:
        """To be called while the exception is handled. The first is logged, so that it can be mended; whoever sends
        more of the kind must not fill the log."""
        self.count += 1
        if self.count == 1:
            log.exception("a query made answering fail; it was dropped. Further ones are only counted")
