"""Tests of the change damper: a member that changes all the time causes few announcements, and all are right."""

from __future__ import annotations

import logging

from hypothesis import given
from hypothesis import strategies as st

from lbdns.planning.change_damper import MAX_CHANGES, WINDOW, Announcement, ChangeDamper


def change(member: str = "frodo", text: str = "frodo is usable", pool: str = "web") -> Announcement:
    return Announcement("state", logging.INFO, pool, member, text)


def test_few_changes_are_announced_as_they_are() -> None:
    damper = ChangeDamper()
    for number in range(100):
        assert damper.admit(change(), number * WINDOW / MAX_CHANGES) == change()
    assert list(damper.ended(1e9)) == []


def test_many_changes_cause_two_more_announcements() -> None:
    damper = ChangeDamper()
    for number in range(1000):
        admitted = damper.admit(change(text=f"change {number}"), 10.0 + number / 100)
        if number < MAX_CHANGES:
            assert admitted == change(text=f"change {number}")
        elif number == MAX_CHANGES:
            assert admitted
            assert admitted.text.startswith("change 6; there are too many changes")
        else:
            assert admitted is None
        assert damper.admit(change(member=f"other {number}"), 10.0 + number / 100), "others are unaffected"
    last = 10.0 + 999 / 100
    assert damper.next_end == last + WINDOW
    assert list(damper.ended(last + WINDOW - 0.1)) == []
    (end,) = damper.ended(last + WINDOW)
    assert end.text == "change 999; no change for 60 s after 993 unlogged changes"
    assert damper.next_end == float("inf")
    assert damper.admit(change(), last + WINDOW + 1) == change()


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["a", "b"])), max_size=300))
def test_no_stream_of_changes_causes_many_announcements(steps: list[tuple[float, str]]) -> None:
    """Each change is announced or counted, and the last announcement of each member is its last change."""
    damper, now = ChangeDamper(), 0.0
    announced: list[tuple[float, Announcement]] = []
    for number, (pause, member) in enumerate(steps):
        for due in (now + pause / 2, now + pause):
            announced += [(due, each) for each in damper.ended(due)]
        now += pause
        if admitted := damper.admit(change(member, f"{number}"), now):
            announced.append((now, admitted))
    announced += [(now + WINDOW, each) for each in damper.ended(now + WINDOW)]
    for member in ("a", "b"):
        of_member = [(at, each.text.partition(";")[0]) for at, each in announced if each.member == member]
        numbers = [str(number) for number, step in enumerate(steps) if step[1] == member]
        assert [text for _, text in of_member[-1:]] == numbers[-1:]
        for at, _ in of_member:
            assert sum(at <= other < at + WINDOW for other, _ in of_member) <= 2 * MAX_CHANGES + 2
    assert not damper._damped
