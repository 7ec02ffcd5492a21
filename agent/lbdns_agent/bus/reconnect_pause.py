"""Decides how long to wait before the next attempt to connect to a bus. Pure, except for its random source.

The agents of a whole farm lose their connections at the same moment. The pauses are random, so that the agents don't
all return at the same moment. A server that comes back has its agents back within two seconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

AFTER_LOSS: Final = 0.5  # seconds: the maximum after an established connection was lost
FIRST: Final = 0.2  # seconds after all servers have failed once; doubled each time they all fail again
LONGEST: Final = 1.5  # seconds
REFUSED: Final = 10.0  # seconds after all servers have refused this agent, or one has and the others have failed


class ReconnectPause:
    """The pauses between attempts to connect to ``count`` servers, which are tried in turn."""

    def __init__(self, count: int, chance: Callable[[], float] = random.random) -> None:
        """``chance`` returns a random number from 0 to 1."""
        self._count, self._chance = count, chance
        self.succeeded()

    def succeeded(self) -> None:
        """Note that a server has accepted the agent."""
        self._failures, self._is_refused = 0, False
        self._pause = FIRST

    def after_loss(self) -> float:
        """Return the seconds to wait after an established connection was lost."""
        self.succeeded()
        return self._chance() * AFTER_LOSS

    def after_failure(self, is_refusal: bool) -> float:
        """Return the seconds to wait after an attempt has failed: 0 if other servers have not been tried yet."""
        self._failures += 1
        self._is_refused = self._is_refused or is_refusal
        if self._failures < self._count:
            return 0.0
        pause = REFUSED if self._is_refused else self._pause
        self._pause = min(LONGEST, 2 * self._pause)
        self._failures, self._is_refused = 0, False
        return pause * (1.0 + self._chance()) / 2
