"""The interface of an answer follower: it answers common queries from the same answers and plans as an answer table.

The answer table passes each precompiled response to the follower, and each plan cursor passes each new plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.message_writer import Variant


class AnswerFollower(Protocol):
    """Answers common queries outside this process, such as in the kernel."""

    def keep(
        self,
        key: bytes,
        cursor: PlanCursor | None,
        family: int | None,
        kind: int,
        variants: Sequence[Variant],
        queries: list[int],
    ) -> None:
        """Answer queries of the given ``kind`` for the question ``key`` from ``variants``, one for each member.

        The parameters are those of an ``AnswerEntry``. The follower may leave any question to this process. It counts
        its answers in ``queries``, and passes its selections to ``cursor``.
        """

    def forget(self) -> None:
        """Count all answers so far, and then answer nothing until ``keep`` is called again."""

    def count(self) -> None:
        """Count all answers so far."""
