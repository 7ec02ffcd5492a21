from __future__ import annotations

import pytest

from lbdns.policies.suspicion import trusted
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
def test_suspects_are_left_out_while_fewer_than_half_are(suspects: tuple[bool, ...], expected: list[int]) -> None:
    assert trusted(view(*(member(suspect=flag) for flag in suspects))) == expected


def test_those_who_can_not_be_handed_out_do_not_count() -> None:
    pool = view(member(suspect=True), member(usable=False), member(usable=False))
    assert trusted(pool) == [0]
