"""Runs a function in a thread for the duration of a with statement."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def background_thread(name: str, run: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``run`` in a thread called ``name``. It must return soon after its argument, an event, has been set.

    The event is set at the end of the with statement, which then waits for the thread.
    """
    over = threading.Event()
    thread = threading.Thread(target=run, args=(over,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
