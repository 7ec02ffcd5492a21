"""Tests of the pauses between attempts to connect."""

from __future__ import annotations

from itertools import repeat

from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.bus.reconnect_pause import AFTER_LOSS, FIRST, LONGEST, REFUSED, ReconnectPause

CHANCES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40)


def test_all_servers_are_tried_before_a_pause() -> None:
    pause = ReconnectPause(3, lambda: 1.0)
    assert [pause.after_failure(False) for _ in range(9)] == [0, 0, FIRST, 0, 0, 2 * FIRST, 0, 0, 4 * FIRST]


def test_success_begins_anew() -> None:
    pause = ReconnectPause(1, lambda: 1.0)
    assert [pause.after_failure(False), pause.after_failure(False)] == [FIRST, 2 * FIRST]
    pause.succeeded()
    assert pause.after_failure(False) == FIRST


def test_a_refusal_makes_the_pause_longer_until_servers_fail_without_one() -> None:
    pause = ReconnectPause(2, lambda: 1.0)
    assert [pause.after_failure(refused) for refused in (True, False, False, False)] == [0, REFUSED, 0, 2 * FIRST]


@given(CHANCES)
def test_pauses_are_random_but_reports_are_late_by_at_most_two_seconds(chances: list[float]) -> None:
    pause = ReconnectPause(1, iter([*chances, *repeat(1.0, 10)]).__next__)
    assert 0 <= pause.after_loss() <= AFTER_LOSS
    for _ in chances:
        assert FIRST / 2 <= pause.after_failure(False) <= LONGEST < 2.0
