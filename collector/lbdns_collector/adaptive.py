"""The adaptive mode: keeps trying other weights of a score, and keeps those that are seen to bring shorter response
times. Pure: time and chance come in.

A search by stimulus and response. Of two terms one is given some of the other's weight; both sets of weights take
turns, old new new old, for ``period`` seconds each, so that what the hour brings hits both. A trial is given up as soon
as the new weights are behind, and they are kept only if four such rounds leave no doubt. Simulated annealing, which
keeps what is better once and sometimes what is worse, was tried first: response times vary so much by themselves that
it wandered about, and was proud of gains that it did not have. From time to time the configured weights are tried
against those in use, and come back unless they are slower. Weights stay within a factor of the configured ones; their
sum stays what it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lbdns.config import Term
from lbdns_collector.score import Score

if TYPE_CHECKING:
    from random import Random

_TURNS: Final = (False, True, True, False)  # whether the new weights are tried: a steady drift cancels out
ROUNDS: Final = 4  # of four turns each, in a trial that is not given up
DOUBT: Final = 3.0  # standard errors that a gain has to exceed: by chance it does in one of thirty trials at most
SETTLING: Final = 0.3  # of each turn that is not looked at: requests of the turn before are still at work
CHECK_EVERY: Final = 6  # trials, while other weights than the configured ones are in use
LEAST_MOVE: Final = 0.005  # of the sum of all weights: less changes no score, which is a whole number
LEAST_REQUESTS: Final = 50.0  # in each half of a round: fewer tell nothing


@dataclass(frozen=True, slots=True)
class Settings:
    """``factor``: no weight leaves the span from configured / factor to configured * factor. ``period``: s a turn."""

    factor: float = 2.0
    period: float = 60.0


@dataclass(slots=True)
class _Seen:
    """What the reports of one kind of turns say: by Little's law busy / requests is the mean response time."""

    busy: float = 0.0  # requests at work, times seconds
    requests: float = 0.0

    @property
    def tells(self) -> bool:
        return self.requests >= LEAST_REQUESTS and self.busy > 0

    @property
    def response(self) -> float:
        return self.busy / self.requests


class Adaptive:
    """The weights of one score while they are looked for. ``observe`` every report, then ask for ``score``."""

    def __init__(self, terms: Mapping[str, Term], settings: Settings, chance: Random) -> None:
        self.configured = dict(terms)
        self.settings = settings
        self._chance = chance
        self._total = sum(term.weight for term in terms.values())
        self._movable = [metric for metric, term in terms.items() if term.weight > 0]
        self._weights = self._usual = {metric: term.weight for metric, term in terms.items()}
        self._candidate: dict[str, float] | None = None
        self._checking = False  # whether the candidate is the configured weights
        self._since_check = 0
        self._changes: list[float] = []  # of each round of this trial: ln of new response over old
        self._turn, self._turn_began = 0, -math.inf
        self._old, self._new = _Seen(), _Seen()
        self._news: list[str] = []
        self.trials = self.accepted = 0
        self.gain = 0.0  # the part by which responses were shorter than with the configured weights when that was tried
        self.score = self._make_score()

    @property
    def weights(self) -> Mapping[str, float]:
        """The weights in use; those on trial are not among them."""
        return self._weights

    def take_news(self) -> list[str]:
        """What has changed since the last time, a line for each change that was accepted."""
        news, self._news = self._news, []
        return news

    def observe(self, metrics: Mapping[str, float], interval: float, now: float) -> bool:
        """Take in a report about ``interval`` seconds. True when ``score`` is another one from now on."""
        if len(self._movable) < 2:
            return False
        if self._turn_began == -math.inf:
            self._turn_began = now
            self._propose()
            return False  # the first turn is the old weights'
        moved = now >= self._turn_began + self.settings.period and self._next_turn(now)
        if now >= self._turn_began + SETTLING * self.settings.period:
            seen = self._new if _TURNS[self._turn] else self._old
            # The agent's own question is a request too, and busy while it counts
            seen.busy += interval * max(0.0, metrics.get("busy_workers", 0.0) - 1.0)
            seen.requests += max(0.0, interval * metrics.get("requests_per_s", 0.0) - 1.0)
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
        weights = self._candidate if self._candidate and _TURNS[self._turn] else self._weights
        return Score({m: Term(weights[m], t.limit, t.better, t.cap) for m, t in self.configured.items()})

    def _end_round(self) -> None:
        old, new = self._old, self._new
        self._old, self._new = _Seen(), _Seen()
        if self._candidate is None:
            self._propose()
        elif old.tells and new.tells:
            self._changes.append(math.log(new.response / old.response))
            mean = sum(self._changes) / len(self._changes)
            # A check has to come to its end: whether it is given up would depend on what it shall tell
            if len(self._changes) == ROUNDS or (mean >= 0 and not self._checking):
                self._judge(self._candidate, mean)
                self._propose()

    def _judge(self, candidate: dict[str, float], change: float) -> None:
        """Keep what was tried, or not."""
        self.trials += 1
        self._since_check += 1
        if self._checking:
            self._since_check = 0
            self.gain = max(0.0, -math.expm1(-change))
            if change <= 0:
                self._accept(candidate, "back to the configured ones, which are no slower")
        elif len(self._changes) == ROUNDS and change < -DOUBT * _standard_error(self._changes):
            self._accept(candidate, f"responses {100 * math.expm1(change):+.1f} %")

    def _accept(self, weights: dict[str, float], why: str) -> None:
        changed = [f"{m} {self._weights[m]:.2f} -> {w:.2f}" for m, w in weights.items() if w != self._weights[m]]
        self._weights = weights
        self.accepted += 1
        self._news.append(f"weights: {', '.join(changed)}: {why}")

    def _propose(self) -> None:
        """Other weights to try: one term gives, another takes, so that the sum stays. Or the configured ones again."""
        self._changes = []
        self._checking = self._weights != self._usual and self._since_check >= CHECK_EVERY
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
            **self._weights, giver: self._weights[giver] - moved, taker: self._weights[taker] + moved,
        }  # fmt: skip

    def _room(self, metric: str) -> tuple[float, float]:
        """How far a weight may go down, and up."""
        weight, usual, factor = self._weights[metric], self._usual[metric], self.settings.factor
        return weight - usual / factor, usual * factor - weight


def _standard_error(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
