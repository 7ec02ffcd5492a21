"""Detects that the monitored web server has stopped listening on its port, or has started listening again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lbdns_shared.report import WEB_SERVER_FAILED

LOOK_INTERVAL: Final = 0.1  # seconds between two looks at the web server's port
LOOKS: Final = 2  # consecutive looks that must agree: a server that opens its sockets anew is not reported


class WebServerWatch:
    """Watches one web server's port. ``failure`` is the reason for an alarm, or an empty string.

    A server that has never listened is not reported as failed, because it may use another port. ``is_listening``
    returns whether a socket listens on ``port``, or None if this is unknown.
    """

    def __init__(self, is_listening: Callable[[], bool | None], port: int) -> None:
        self._is_listening = is_listening
        self._port = port
        self._has_listened = False
        self._looks = 0  # consecutive looks that contradict ``failure``
        self.failure = ""

    def look(self) -> bool:
        """Check whether the web server still listens on the port. Return whether ``failure`` has changed."""
        listens = self._is_listening()
        if listens is None or listens != bool(self.failure):
            self._looks = 0
            self._has_listened = self._has_listened or listens is True
            return False
        self._looks += 1
        if self._looks < LOOKS or not self._has_listened:
            return False
        self._looks = 0
        self.failure = "" if listens else f"{WEB_SERVER_FAILED}: nothing listens on port {self._port}"
        return True
