"""One log line when something breaks, and one when it works again; nothing in between."""

from __future__ import annotations

import logging

log = logging.getLogger("lbdns.agent")


class Troubles:
    """Remembers which metrics are missing, and since when nobody needs to be told again."""

    def __init__(self) -> None:
        self._missing: dict[str, frozenset[str]] = {}

    def note(self, sensor: str, missing: dict[str, str]) -> None:
        """``missing``: metric -> why, of the metrics of ``sensor``. Which they are is logged when it changes."""
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
