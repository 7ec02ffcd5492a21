"""Adaptive weights: a search for score weights that shorten response times.

This module is sans-I/O: the caller supplies the time and the random number generator.

Each trial shifts some weight from one term of the score to another. The trial alternates between the old and the new
weights every ``period`` seconds, so that changes in load affect both sets of weights equally. The trial ends as soon as
the new weights perform worse. The search accepts the new weights only if a significant gain is measured in four rounds
of four turns each. From time to time, the search compares the configured weights with the weights in use. It restores
the configured weights unless they cause longer response times. Each weight stays within a fixed factor of its
configured value, and the sum of all weights stays constant. The first version used simulated annealing, which accepts
every better result and some worse results. Because response times vary widely, that version reported gains that did not
exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lbdns.choosing.reported_values import MAX_LOAD
from lbdns.scores.score import Score, Term

if TYPE_CHECKING:
    from random import Random

_TURNS: Final = (False, True, True, False)  # whether the turn uses the new weights; this order cancels a steady drift
ROUNDS: Final = 4  # of four turns each, in a trial that is not ended early
DOUBT: Final = 3.0  # standard errors that a gain must exceed; by chance alone, at most 1 of 30 trials exceeds them
SETTLING: Final = 0.3  # fraction of each turn that is ignored: requests from the previous turn are still in progress
CHECK_EVERY: Final = 6  # trials between two checks of the configured weights, while others are in use
LEAST_MOVE: Final = 0.005  # fraction of the sum of all weights; a smaller move changes no score, as scores are integers
LEAST_BUSY: Final = 1e-6  # requests in progress * seconds; far below what a single request needs
MOST_REQUESTS: Final = 1e9  # requests in one report: with absurd values, the sums would overflow
LEAST_REQUESTS: Final = 50.0  # requests in each half of a round; fewer give no usable mean


@dataclass(frozen=True, slots=True)
class WeightSearchSettings:
    """The settings of a weight search: the range of the weights, and how long each set of weights is used at a time."""

    factor: float = 2.0
    period: float = 60.0


@dataclass(slots=True)
class _ResponseTimeSums:
    """Totals from all reports received during turns with the same weights.

    By Little's law, the mean response time is ``busy / requests``.
    """

    busy: float = 0.0  # requests in progress * seconds
    requests: float = 0.0

    @property
    def is_enough(self) -> bool:
        return self.requests >= LEAST_REQUESTS and self.busy >= LEAST_BUSY

    @property
    def response(self) -> float:
        return self.busy / self.requests


@dataclass(frozen=True, slots=True)
class WeightSearchStatus:
    """The state of a weight search: the score's name and weights, and the numbers of completed and accepted trials.

    ``gain`` is the relative reduction in response times, measured by the last comparison with the configured weights.
    """

    score: str
    weights: Mapping[str, float]
    trials: int
    accepted: int
    gain: float


class WeightSearch:
    """A search for better weights for one score.

    Call ``observe`` with every report; if the result is True, the weights in ``score`` have changed.
    """

    def __init__(self, terms: Mapping[str, Term], settings: WeightSearchSettings, chance: Random) -> None:
        self.configured = dict(terms)
        self.settings = settings
        self._chance = chance
        self._total = sum(term.weight for term in terms.values())
        self._movable = [metric for metric, term in terms.items() if term.weight > 0]
        self._usual = {metric: term.weight for metric, term in terms.items()}
        self.weights = self._usual  # in use, without those on trial
        self._candidate: dict[str, float] | None = None
        self._checking = False  # whether the candidate is the configured weights
        self._since_check = 0
        self._changes: list[float] = []  # per round of this trial: ln(new response time / old response time)
        self._turn, self._turn_began = 0, -math.inf
        self._old, self._new = _ResponseTimeSums(), _ResponseTimeSums()
        self._accepted_changes: list[str] = []
        self.trials = self.accepted = 0
        self.gain = 0.0  # fraction by which responses were shorter than with the configured weights, when last checked
        self.score = self._make_score()

    def take_changes(self) -> list[str]:
        """Return one line for each change accepted since the last call."""
        changes, self._accepted_changes = self._accepted_changes, []
        return changes

    def observe(self, metrics: Mapping[str, float], interval: float, now: float) -> bool:
        """Record a report that covers ``interval`` seconds. Return whether ``score`` has changed."""
        if len(self._movable) < 2:
            return False
        if self._turn_began == -math.inf:
            self._turn_began = now
            self._propose()
            return False  # the first turn uses the old weights
        moved = now >= self._turn_began + self.settings.period and self._next_turn(now)
        if now >= self._turn_began + SETTLING * self.settings.period:
            seen = self._new if _TURNS[self._turn] else self._old
            # The agent's own status request counts as a request, and occupies a worker
            seen.busy += interval * min(MAX_LOAD, max(0.0, metrics.get("busy_workers", 0.0) - 1.0))
            seen.requests += min(MOST_REQUESTS, max(0.0, interval * metrics.get("requests_per_s", 0.0) - 1.0))
        return moved

    def _next_turn(self, now: float) -> bool:
        self._turn_began = now
        self._turn += 1
        if self._turn == len(_TURNS):
            self._turn = 0
            self._end_round()
        before, self.score = self.score, self._make_score()
        return before != self.score

    def _make_score(self) -> Score:
        weights = self._candidate if self._candidate and _TURNS[self._turn] else self.weights
        return Score({m: Term(weights[m], t.limit, t.better, t.cap) for m, t in self.configured.items()})

    def _end_round(self) -> None:
        old, new = self._old, self._new
        self._old, self._new = _ResponseTimeSums(), _ResponseTimeSums()
        if self._candidate is None:
            self._propose()
        elif old.is_enough and new.is_enough:
            self._changes.append(math.log(new.response / old.response))
            mean = sum(self._changes) / len(self._changes)
            # A check must run to its end: ending it early would bias its result
            if len(self._changes) == ROUNDS or (mean >= 0 and not self._checking):
                self._judge(self._candidate, mean)
                self._propose()

    def _judge(self, candidate: dict[str, float], change: float) -> None:
        self.trials += 1
        self._since_check += 1
        if self._checking:
            self._since_check = 0
            self.gain = max(0.0, -math.expm1(-change))
            if change <= 0:
                self._accept(candidate, "restored the configured weights, because they do not increase response times")
        elif len(self._changes) == ROUNDS and change < -DOUBT * _standard_error(self._changes):
            self._accept(candidate, f"response times {100 * math.expm1(change):+.1f} %")

    def _accept(self, weights: dict[str, float], why: str) -> None:
        changed = [f"{m} {self.weights[m]:.2f} -> {w:.2f}" for m, w in weights.items() if w != self.weights[m]]
        self.weights = weights
        self.accepted += 1
        self._accepted_changes.append(f"weights: {', '.join(changed)}: {why}")

    def _propose(self) -> None:
        """Choose the weights for the next trial: shift weight between two terms, or restore the configured weights."""
        self._changes = []
        self._checking = self.weights != self._usual and self._since_check >= CHECK_EVERY
        if self._checking:
            self._candidate = self._usual
            return
        room = {metric: self._room(metric) for metric in self._movable}
        least = LEAST_MOVE * self._total
        pairs = [
            (giver, taker, most)
            for giver in self._movable
            for taker in self._movable
            if giver != taker and (most := min(room[giver][0], room[taker][1])) >= least
        ]
        if not pairs:
            self._candidate = None
            return
        giver, taker, most = self._chance.choice(pairs)
        moved = max(least, most * self._chance.random())
        self._candidate = {
            **self.weights, giver: self.weights[giver] - moved, taker: self.weights[taker] + moved,
        }  # fmt: skip

    def _room(self, metric: str) -> tuple[float, float]:
        weight, usual, factor = self.weights[metric], self._usual[metric], self.settings.factor
        return weight - usual / factor, usual * factor - weight


def _standard_error(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
