"""The planning of a large pool, which takes several turns of the event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lbdns.policies.steps import Steps, finish


@dataclass(slots=True)
class LargePoolPlanning:
    """The planning of one large pool, which has begun.

    Between two steps, the state of pools must only be read. Pass each change to ``defer``.
    """

    pool: str
    steps: Steps[bool]  # returns whether the state of the pool has changed
    is_outdated: bool = False  # the overrides have changed since the planning began
    _deferred: list[Callable[[], None]] = field(default_factory=list)

    def defer(self, change: Callable[[], None]) -> None:
        """Call ``change`` as soon as the planning has ended."""
        self._deferred.append(change)

    def step(self) -> bool | None:
        """Do one step. Return whether the state of the pool has changed, or None if more steps follow."""
        try:
            next(self.steps)
        except StopIteration as end:
            self._apply_deferred()
            return bool(end.value)
        return None

    def finish(self) -> bool:
        """Do all remaining steps at once. Return whether the state of the pool has changed."""
        changed = finish(self.steps)
        self._apply_deferred()
        return changed

    def _apply_deferred(self) -> None:
        for change in self._deferred:
            change()
        self._deferred.clear()
