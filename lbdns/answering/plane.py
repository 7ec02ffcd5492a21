"""The plane: who answers the usual queries over UDP, Python alone or the native part, which does the same faster. Pure.

What decides about a query is made by the plane, so that both ways of a query share one limit, one memory of repeated
queries, one of those that belong together, and one place in each plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lbdns.answering.coherence import Coherence
from lbdns.answering.cookies import CookieJar, Cookies
from lbdns.answering.entry import Variant
from lbdns.answering.handout import Handout
from lbdns.answering.limit import Limiter
from lbdns.answering.recent import Recent
from lbdns.config.rate_limit import RateLimitConfig


class CompiledTable(Protocol):
    """What the native part finds: finished responses, and plans with the place in each."""

    def add_cursor(self, coherence: float) -> int:
        """A place for one more plan, whose hand-outs other types can join for so long (s). Numbered from 0."""

    def set_plan(self, cursor: int, order: Sequence[int], repeat_from: int, usable: Sequence[int]) -> None:
        """From now on hand out this plan; ``usable`` may still be given to who was given them before."""

    def handed(self, cursor: int) -> tuple[int, int]:
        """The place in the plan's order, and how often it came to its end."""

    def next(self, cursor: int) -> int:
        """Hand out: the member that is due."""

    def keep(
        self, key: bytes, cursor: int | None, together: int | None, kind: int, variants: Sequence[Variant]
    ) -> None:
        """The responses to a question when it is asked in this kind of way: one for each member, or one in all.
        ``together`` as an entry has it."""

    def forget(self) -> None:
        """Drop every response; plans stay."""

    def take_asked(self) -> list[tuple[bytes, int]]:
        """Queries answered since the last call, by question."""


class Limits(Protocol):
    """As ``limit.Limiter``."""

    @property
    def dropped(self) -> int: ...
    @property
    def cut(self) -> int: ...
    @property
    def last(self) -> str: ...
    def tick(self, now: float) -> None: ...
    def count(self, host: str, kind: bytes) -> int: ...
    def drops(self, over: int, host: str) -> bool: ...


class Repeats(Protocol):
    """As ``recent.Recent``."""

    repeated: int

    def mark(self, host: str, port: int, query: bytes) -> int: ...
    def member(self, mark: int, now: float) -> int | None: ...
    def note(self, mark: int, member: int, now: float) -> None: ...


class Joins(Protocol):
    """As ``coherence.Coherence``."""

    coherent: int

    def mark(self, host: str, handout: int) -> int: ...
    def member(self, mark: int, which: int, since: float) -> int | None: ...
    def give(self, handout: Handout, host: str, which: int, now: float) -> int: ...


class Plane(Protocol):
    """Makes what the two ways of a query share."""

    name: str

    def table(self, payload: int) -> CompiledTable | None:
        """For one table of answers; None where Python answers alone. ``payload`` is what we receive over UDP, bytes."""

    def limits(self, rules: RateLimitConfig, share: int) -> Limits: ...
    def repeats(self) -> Repeats: ...
    def joins(self) -> Joins: ...
    def cookies(self, secrets: Sequence[bytes]) -> CookieJar: ...


class PythonPlane:
    """Python alone: whole, and slower."""

    name = "python"

    def table(self, payload: int) -> CompiledTable | None:
        return None

    def limits(self, rules: RateLimitConfig, share: int) -> Limits:
        return Limiter(rules, share)

    def repeats(self) -> Repeats:
        return Recent()

    def joins(self) -> Joins:
        return Coherence()

    def cookies(self, secrets: Sequence[bytes]) -> CookieJar:
        return Cookies(secrets)


PYTHON: Plane = PythonPlane()
