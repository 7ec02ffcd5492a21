"""One log line when a metric can no longer be measured, and one when it can be again; none in between."""

from __future__ import annotations

import logging

log = logging.getLogger("lbdns.agent")


class FailureLog:
    """Remembers which metrics of each sensor are missing, and logs changes only."""

    def __init__(self) -> None:
        self._missing: dict[str, frozenset[str]] = {}

    def note(self, sensor: str, missing: dict[str, str]) -> None:
        """Log the metrics of ``sensor`` that went missing or came back; ``missing`` maps a metric to the reason."""
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
