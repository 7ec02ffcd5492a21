"""Read the event stream of a running server in a thread, and reconnect whenever it ends."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import Final

from lbdns.client.http_client import HttpLocation, stream_events
from lbdns.events.server_sent_events import ServerSentEvent
from lbdns_shared.errors import LbdnsError

FIRST_PAUSE: Final = 0.5  # s before the first reconnect; each pause doubles ...
LONGEST_PAUSE: Final = 8.0  # ... up to this
KEPT: Final = 10_000  # events that wait for ``take``


class EventFeed:
    """A feed of events and status documents. ``descriptor`` is readable when new data is available."""

    def __init__(self, server: HttpLocation, path: str) -> None:
        self._source = server, path
        self._lock = threading.Lock()
        self._events: deque[bytes] = deque(maxlen=KEPT)
        self._status: bytes | None = None
        self.trouble = ""  # why no data arrives; empty while the stream seems open
        self.failures = 0  # number of failed or broken connections
        self.descriptor, self._awake = os.pipe()
        for descriptor in (self.descriptor, self._awake):
            os.set_blocking(descriptor, False)
        self._ended = threading.Event()
        # A daemon thread, since it may be waiting for a server that sends nothing
        threading.Thread(target=self._run, name="event stream", daemon=True).start()

    def take(self) -> tuple[bytes | None, list[bytes]]:
        """Return the data received since the last call: the newest status (or None), and all events, oldest first."""
        self.quiet()
        with self._lock:
            status, self._status = self._status, None
            events = list(self._events)
            self._events.clear()
        return status, events

    def quiet(self) -> None:
        """Make ``descriptor`` unreadable until more data arrives; ``take`` still returns the data received so far."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def close(self) -> None:
        """Stop receiving. The thread ends when the next event or error arrives."""
        self._ended.set()

    def wake(self) -> None:
        """Make ``descriptor`` readable. Signal handlers may call this method."""
        with contextlib.suppress(BlockingIOError):  # a full pipe is already readable
            os.write(self._awake, b"\0")

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._ended.is_set():
            try:
                for event in stream_events(*self._source):
                    if self._ended.is_set():
                        return
                    pause, self.trouble = FIRST_PAUSE, ""
                    self._receive(event)
            except LbdnsError as error:
                self.trouble = str(error)
                self.failures += 1
                self.wake()
            self._ended.wait(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _receive(self, event: ServerSentEvent) -> None:
        with self._lock:
            if event.name == "status":
                self._status = event.data
            elif event.name == "log":
                self._events.append(event.data)
        self.wake()
