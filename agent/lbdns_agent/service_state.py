"""Tells the service manager that the agent is ready, reloading, stopping or still alive."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from lbdns_shared.service_manager import ALIVE, STOPPING, notify, ready, reloading, watchdog_period


class ServiceState:
    """The agent's state as reported to the service manager. Without a service manager, nothing happens.

    ``alive_due`` is the monotonic time (s) at which the next keep-alive message is due, or inf if none is expected.
    """

    def __init__(self, now: float, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._period = watchdog_period(environment) or math.inf
        self.alive_due = now + self._period

    def ready(self) -> None:
        """Report that the agent has started, or that a reload is complete."""
        self._notify(ready(os.getpid()))

    def reloading(self) -> None:
        """Report that a reload is beginning. The caller must call ``ready`` when the reload is complete."""
        self._notify(reloading())

    def stopping(self) -> None:
        self._notify(STOPPING)

    def alive(self, now: float) -> None:
        """Send a keep-alive message if one is due at ``now`` (monotonic seconds)."""
        if now >= self.alive_due:
            self._notify(ALIVE)
            self.alive_due = now + self._period

    def _notify(self, state: str) -> None:
        notify(state, self._environment)
