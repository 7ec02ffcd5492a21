"""One file descriptor in reserve, for work that must go on when the process has no other descriptor left."""

from __future__ import annotations

import contextlib
import os


class DescriptorReserve:
    """Holds one descriptor from its creation until ``release``, and again from ``restore`` on."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self.restore()

    def release(self) -> bool:
        """Give the descriptor back to the process. Return whether one was held."""
        if self._descriptor is None:
            return False
        os.close(self._descriptor)
        self._descriptor = None
        return True

    def restore(self) -> bool:
        """Hold a descriptor, if the process has one left. Return whether one is held now."""
        if self._descriptor is None:
            with contextlib.suppress(OSError):
                self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptor is not None
