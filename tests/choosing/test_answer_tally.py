"""Answer tallies: rates by policy, charges until the next report, and answers given by other processes and servers."""

from __future__ import annotations

import pytest

from lbdns.choosing.answer_tally import AnswerTally
from lbdns.policies.plan import Plan, Selections


def selections(*counts: int) -> Selections:
    return Selections(Plan(tuple(range(len(counts)))), counts, None)


def test_selections_are_charged_until_the_members_next_report() -> None:
    tally = AnswerTally(3, servers=1)
    tally.start_round([0])
    tally.add_own("best", selections(4, 5, 6), 1.0)
    assert tally.charges == [0.0, 5.0, 6.0], "the report of member 0 shows the effect already"
    tally.start_round([1])
    assert tally.charges == [0.0, 0.0, 6.0]


def test_without_a_previous_plan_nothing_is_charged() -> None:
    tally = AnswerTally(2, servers=1)
    tally.add_own("best", None, 1.0)
    assert (tally.charges, tally.rate("best", 1.0), tally.multiplier(1.0)) == ([0.0, 0.0], 0.0, 1.0)


def test_answers_of_other_processes_and_servers_multiply_the_charge() -> None:
    tally = AnswerTally(1, servers=2)
    tally.answers("best").add(1.0, 30)  # other processes of this server
    tally.add_own("best", selections(10), 1.0)
    assert tally.multiplier(1.0) == 2 * 4
    assert tally.charges == [80.0]
    assert tally.rate("best", 1.0) == pytest.approx(2 * 40)
    assert tally.rate("weighted", 1.0) == 0.0


def test_a_crowd_counts_only_when_it_has_just_arrived() -> None:
    tally = AnswerTally(1, servers=1)
    for second in range(60):
        tally.add_own("best", selections(10), float(second))
    assert tally.crowd_rate(59.0) == 0.0
    tally.add_own("best", selections(500), 60.0)
    assert tally.crowd_rate(60.0) == tally.recent_rate("best", 60.0) > 200
    assert tally.crowd_rate(60.0) > tally.rate("best", 60.0)


def test_a_reload_keeps_the_counts_of_remaining_members() -> None:
    old, new = AnswerTally(2, servers=1), AnswerTally(3, servers=1)
    old.add_own("best", selections(1, 2), 1.0)
    new.take_over(old, [1, None, 0])
    assert new.charges == [2.0, 0.0, 1.0]
    assert new.recent.values == [old.recent.values[1], 0.0, old.recent.values[0]]
    assert new.rate("best", 1.0) == old.rate("best", 1.0) > 0
