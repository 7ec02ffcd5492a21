"""Tests of work in steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.policies.steps import Steps, finish, in_one_step, parts


@given(st.integers(0, 5000), st.integers(1, 2000))
def test_parts_make_up_the_whole(size: int, most: int) -> None:
    whole = list(range(size))
    found = [whole[part] for part in parts(size, most)]
    assert [item for part in found for item in part] == whole
    assert all(0 < len(part) <= most for part in found)


def test_the_rest_of_the_work_can_be_finished_at_once() -> None:
    done: list[int] = []

    def steps() -> Steps[str]:
        for number in range(3):
            done.append(number)
            yield
        return "result"

    begun = steps()
    next(begun)
    assert done == [0]
    assert finish(begun) == "result"
    assert done == [0, 1, 2]


def test_an_error_ends_the_work() -> None:
    def steps() -> Steps[None]:
        yield
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        finish(steps())


def test_a_function_becomes_a_single_step() -> None:
    steps = in_one_step(max)(3, 4)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == 4
