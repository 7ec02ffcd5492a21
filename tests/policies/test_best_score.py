from __future__ import annotations

from random import Random

from lbdns.policies.best_score import best_score
from lbdns.policies.plan import Selections
from tests.policies.views import member, run, view


def test_every_answer_names_the_highest_score_at_any_rate() -> None:
    assert set(run(best_score, view(member(10), member(80, load=500.0), member(79)), 100, 3)) == {1}


def test_ties_take_turns() -> None:
    order = run(best_score, view(member(80), member(80), member(79)), 3, 4)
    assert order == [0, 1] * 6


def test_it_is_deterministic() -> None:
    pool = view(member(1), member(2))
    assert best_score(pool, None, Random(1)) == best_score(pool, None, Random(2))


def test_members_that_are_not_usable_are_skipped() -> None:
    pool = view(member(score=10), member(score=99, usable=False), member(score=60), member(score=60))
    assert best_score(pool, None, Random(1)).order == (2, 3)


def test_equal_scores_take_turns_from_plan_to_plan() -> None:
    pool = view(member(score=60), member(score=60), member(score=5))
    first = best_score(pool, None, Random(1))
    again = best_score(pool, Selections(first, (1, 0, 0), 0), Random(1))
    assert (first.order[0], again.order[0]) == (0, 1)
