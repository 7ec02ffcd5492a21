"""A running server's event stream, read by a thread of its own and taken up again whenever it ends."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import Final

from lbdns.errors import LbdnsError
from lbdns.event_stream import Event
from lbdns.http_client import stream
from lbdns.http_credentials import Credentials

FIRST_PAUSE: Final = 0.5  # s before the first further attempt; each pause is twice the one before ...
LONGEST_PAUSE: Final = 8.0  # ... up to this
KEPT: Final = 10_000  # events that wait to be taken


class Feed:
    """What came since it was looked at last. ``descriptor`` is readable when there is something new.

    Of status documents only the newest counts; the others that came with it are never parsed.
    """

    def __init__(self, base: str, path: str, credentials: Credentials) -> None:
        self._source = base, path, credentials
        self._lock = threading.Lock()
        self._events: deque[bytes] = deque(maxlen=KEPT)
        self._status: bytes | None = None
        self.trouble = ""  # why nothing comes; empty while the stream is open, as far as is known
        self.failures = 0  # times that there was trouble
        self.descriptor, self._awake = os.pipe()
        for descriptor in (self.descriptor, self._awake):
            os.set_blocking(descriptor, False)
        self._ended = threading.Event()
        # A daemon: it may be waiting for a server that says nothing
        threading.Thread(target=self._run, name="event stream", daemon=True).start()

    def take(self) -> tuple[bytes | None, list[bytes]]:
        """The newest status document, if there is a new one, and the new events, oldest first."""
        self.quiet()
        with self._lock:
            status, self._status = self._status, None
            events = list(self._events)
            self._events.clear()
        return status, events

    def quiet(self) -> None:
        """Make ``descriptor`` wait for the next news; what came can be taken later."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def close(self) -> None:
        """Nothing more comes. The thread ends when it notices."""
        self._ended.set()

    def wake(self) -> None:
        """Make ``descriptor`` readable; can be called by a signal handler."""
        with contextlib.suppress(BlockingIOError):  # full: it is readable
            os.write(self._awake, b"\0")

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._ended.is_set():
            try:
                for event in stream(*self._source):
                    if self._ended.is_set():
                        return
                    pause, self.trouble = FIRST_PAUSE, ""
                    self._hear(event)
            except LbdnsError as error:
                self.trouble = str(error)
                self.failures += 1
                self.wake()
            self._ended.wait(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _hear(self, event: Event) -> None:
        with self._lock:
            if event.name == "status":
                self._status = event.data
            elif event.name == "log":
                self._events.append(event.data)
        self.wake()
