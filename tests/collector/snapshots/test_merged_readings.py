"""Tests of the merge of several collectors' readings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lbdns_collector.snapshots.merged_readings import MergedReadings
from tests.collector.snapshots.messages import message

GANDALF = "gandalf.hobbit"


def score(merged: MergedReadings) -> int | None:
    return merged.of([GANDALF])[GANDALF].score


def changed_scores(merged: MergedReadings) -> dict[str, int | None]:
    return {name: reading.score for name, reading in merged.take_changed().items()}


def everybody(boot: int) -> bool:
    return True


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1))
def test_the_newest_report_wins_whoever_brings_it_and_whenever(arrivals: list[tuple[int, int]]) -> None:
    merged = MergedReadings()
    for seq, (boot, number) in enumerate(arrivals):
        merged.merge(message(seq, boot, gandalf=(number, number)), everybody)
    assert score(merged) == max(number for _, number in arrivals)


def test_only_the_owner_changes_the_reading_of_a_report() -> None:
    merged = MergedReadings()
    merged.merge(message(1, 1, gandalf=(50, 4)), everybody)
    assert changed_scores(merged) == {GANDALF: 50}
    merged.merge(message(1, 2, gandalf=(60, 4)), everybody)
    assert not changed_scores(merged)
    merged.merge(message(2, 1, gandalf=(70, 4)), everybody)
    merged.merge(message(1, 1, gandalf=(50, 4)), everybody)  # an earlier message
    assert changed_scores(merged) == {GANDALF: 70}
    assert score(merged) == 70


def test_a_silent_owner_is_succeeded() -> None:
    merged = MergedReadings()
    merged.merge(message(1, 1, gandalf=(50, 4)), everybody)
    merged.merge(message(1, 2, gandalf=(60, 4)), lambda boot: boot != 1)
    merged.merge(message(9, 1, gandalf=(50, 3)), everybody)
    assert changed_scores(merged) == {GANDALF: 60}
    assert score(merged) == 60


def test_only_known_members_are_returned() -> None:
    merged = MergedReadings()
    merged.merge(message(1, gandalf=(50, 4), frodo=(40, 4)), everybody)
    assert list(merged.of([GANDALF, "bilbo.hobbit"])) == [GANDALF]
    merged.forget(["frodo.hobbit", "bilbo.hobbit"])
    assert list(merged.take_changed()) == [GANDALF]
    assert len(merged) == 1
    assert list(merged.of([GANDALF])) == [GANDALF]
