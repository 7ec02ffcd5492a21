from __future__ import annotations

from random import Random

from lbdns.policies.best_score import best_score
from tests.policies.views import member, run, view


def test_every_answer_names_the_highest_score_at_any_rate() -> None:
    assert set(run(best_score, view(member(10), member(80, load=500.0), member(79)), 100, 3)) == {1}


def test_ties_take_turns() -> None:
    order = run(best_score, view(member(80), member(80), member(79)), 3, 4)
    assert order == [0, 1] * 6


def test_it_is_deterministic() -> None:
    pool = view(member(1), member(2))
    assert best_score(pool, None, Random(1)) == best_score(pool, None, Random(2))
