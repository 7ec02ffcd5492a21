"""Explains why a sensor has no value for a metric, and logs when a metric becomes unavailable or available again."""

from __future__ import annotations

import logging
from typing import Final

from lbdns_shared.errors import LbdnsError

LINUX_ONLY: Final = "measured on Linux only"

log = logging.getLogger("lbdns.agent")


class MissingValueError(LbdnsError):
    """Raised if a source can't be read. If possible, the message explains how to make the source readable."""


class SwitchedOffError(MissingValueError):
    """Raised if a source doesn't exist on this system or is switched off on the command line. Never logged."""


def failure_reason(error: Exception, source: str) -> str:
    """Return one line that explains to an administrator why ``source`` can't be read."""
    if isinstance(error, LbdnsError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{source}: {where}{error.strerror}"
    if isinstance(error, (ValueError, TimeoutError)):
        return f"{source}: {error}"
    return f"{source}: unexpected {type(error).__name__}: {error}"


class FailureLog:
    """A log of missing metrics: stores the metrics that each sensor lacks, and logs only changes."""

    def __init__(self) -> None:
        self._missing: dict[str, frozenset[str]] = {}

    def note(self, sensor: str, missing: dict[str, str]) -> None:
        """Log the metrics of ``sensor`` that became unavailable or available again.

        ``missing`` maps each missing metric to the reason.
        """
        before = self._missing.get(sensor, frozenset())
        now = frozenset(missing)
        if now == before:
            return
        self._missing[sensor] = now
        by_reason: dict[str, list[str]] = {}
        for metric in sorted(now - before):
            by_reason.setdefault(missing[metric], []).append(metric)
        for reason, metrics in by_reason.items():
            log.warning("%s: not measured: %s", ", ".join(metrics), reason)
        if back := sorted(before - now):
            log.info("%s: measured again", ", ".join(back))
