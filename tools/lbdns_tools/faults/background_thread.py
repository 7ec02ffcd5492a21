"""Runs a function in a thread for the duration of a with statement."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def background_thread(name: str, run: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``run`` in a thread called ``name`` for the duration of a with statement.

    The argument of ``run`` is an event. At its end, the with statement sets the event and waits for the thread, so
    ``run`` must return soon after the event has been set.
    """
    over = threading.Event()
    thread = threading.Thread(target=run, args=(over,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
