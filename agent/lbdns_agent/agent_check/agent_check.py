"""Decides how the agent answers HAProxy, based on samples, alarms and the administrator's file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lbdns_agent.agent_check.check_reply import STOPPING, check_reply
from lbdns_agent.agent_check.check_server import AgentCheckServer
from lbdns_agent.agent_check.free_capacity import FreeCapacity
from lbdns_agent.agent_check.order_file import OrderFile
from lbdns_agent.limited_listener import open_listener
from lbdns_shared.endpoint import Endpoint

RECENT: Final = 30.0  # seconds since a check for which HAProxy counts as present
STOP_TIME: Final = 3.0  # s for which a stopping agent still answers; HAProxy asks every 2 s by default


class AgentCheck:
    """Answers agent checks until ``close`` is called."""

    def __init__(self, endpoint: Endpoint, file: Path | None, alarm: Callable[[], str]) -> None:
        """``file`` contains the administrator's order (see ``OrderFile``). ``alarm`` returns the reason for an alarm,
        or an empty string.

        Raises LbdnsError if the port cannot be used.
        """
        self.server = AgentCheckServer(open_listener(endpoint, "--agent-check"), self._reply)
        self._file = OrderFile(file) if file else None
        self._capacity = FreeCapacity()
        self._alarm = alarm
        self._is_stopping = False

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Update the free capacity with the metrics of a sample."""
        self._capacity.observe(metrics, time.monotonic())

    def stop(self) -> float:
        """Ask HAProxy to drain this host. Return the time (monotonic seconds) until which the caller must keep
        answering checks."""
        self._is_stopping = True
        now, asked = time.monotonic(), self.server.asked_at
        return now + STOP_TIME if asked is not None and now - asked <= RECENT else now

    def close(self) -> None:
        """Close the port."""
        self.server.close()

    def _reply(self) -> bytes:
        order = self._file.order(time.monotonic()) if self._file else ""
        return check_reply(self._capacity.percent, order, STOPPING if self._is_stopping else self._alarm())
