"""What another DNS server has answered, as it states over a bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OtherAnswers:
    """The answers of one other DNS server in the last ``seconds`` seconds, and which servers are heard now.

    Servers are identified by random numbers, one for each run.
    """

    heard: frozenset[int]  # all servers that are heard now
    server: int = 0  # which sent the answers in ``counts``
    seconds: float = 0.0
    #: Answers by pool and policy, and then by the full names of the members that they named
    counts: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
