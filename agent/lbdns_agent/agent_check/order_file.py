"""Reads the file in which this host's administrator orders HAProxy to drain the host or put it in maintenance."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

log = logging.getLogger("lbdns.agent")

MAINT, DRAIN, READY = "maint", "drain", "ready"
ORDERS: Final = (MAINT, DRAIN, READY)
READ_INTERVAL: Final = 1.0  # seconds between two readings of the file
READY_TIME: Final = 30.0  # s for which "ready" is sent after an order has ended, so that every HAProxy receives it
_LONGEST: Final = 100  # characters


class OrderFile:
    """A file with an order for HAProxy: ``maint``, ``drain`` or ``ready``. Without the file, there is no order.

    After ``maint`` or ``drain``, HAProxy keeps the server in that administrative state until it receives ``ready``.
    Therefore, ``ready`` is sent for a while after the file has been removed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._order = ""
        self._read_at: float | None = None
        self._ready_until = 0.0
        self._problem = ""  # the last problem that was logged

    def order(self, now: float) -> str:
        """Return the order that applies at ``now`` (monotonic seconds), or an empty string if there is none."""
        if self._read_at is None or now - self._read_at >= READ_INTERVAL:
            self._read_at = now
            self._read(now)
        if not self._order and now < self._ready_until:
            return READY
        return self._order

    def _read(self, now: float) -> None:
        """Read the file. If it cannot be read or is not valid, the current order remains in force."""
        try:
            with self._path.open(encoding="utf-8") as file:
                text = file.read(_LONGEST).strip()
        except FileNotFoundError:
            text = ""
        except (OSError, ValueError) as error:
            self._report(f"cannot read the file: {getattr(error, 'strerror', None) or error}")
            return
        if text and text not in ORDERS:
            self._report(f"must contain {MAINT}, {DRAIN} or {READY}, not {text!r}")
            return
        self._problem = ""
        if text == self._order:
            return
        log.info("--agent-check-file: %s", f"HAProxy is told {text!r}" if text else "the order has ended")
        if not text and self._order in (MAINT, DRAIN):
            self._ready_until = now + READY_TIME
        self._order = text

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("--agent-check-file %s: %s; the order in force continues", self._path, problem)
        self._problem = problem
