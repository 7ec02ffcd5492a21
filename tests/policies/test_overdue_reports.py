from __future__ import annotations

import pytest

from lbdns.policies.overdue_reports import without_overdue
from tests.policies.views import member, view


@pytest.mark.parametrize(
    ("suspects", "expected"),
    [
        ((False, False, False), [0, 1, 2]),
        ((True, False, False), [1, 2]),
        ((True, True, False), [0, 1, 2]),
        ((True, True, False, False), [0, 1, 2, 3]),
        ((True, False), [0, 1]),
        ((True,), [0]),
    ],
)
def test_overdue_members_are_skipped_while_they_are_fewer_than_half(
    suspects: tuple[bool, ...], expected: list[int]
) -> None:
    assert without_overdue(view(*(member(overdue=flag) for flag in suspects))) == expected


def test_members_that_are_not_usable_do_not_count() -> None:
    pool = view(member(overdue=True), member(usable=False), member(usable=False))
    assert without_overdue(pool) == [0]
