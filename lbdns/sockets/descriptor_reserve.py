"""A reserved file descriptor, for work that must continue when the process has no other descriptor left."""

from __future__ import annotations

import contextlib
import os


class DescriptorReserve:
    """Holds one spare descriptor, which the caller can ``release`` for other use and ``restore`` later."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self.restore()

    def release(self) -> bool:
        """Release the spare descriptor for other use. Return False if there was none to release."""
        if self._descriptor is None:
            return False
        os.close(self._descriptor)
        self._descriptor = None
        return True

    def restore(self) -> bool:
        """Reserve a descriptor again, if the process has a free descriptor. Return whether a descriptor is now held."""
        if self._descriptor is None:
            with contextlib.suppress(OSError):
                self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptor is not None
