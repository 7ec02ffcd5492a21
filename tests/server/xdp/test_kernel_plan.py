"""Checks that the kernel follows plans, and that a plan is replaced as a whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.answering.member_selection import PlanCursor
from lbdns.policies.plan import Plan
from lbdns.server.xdp.kernel_answers import KernelAnswers
from lbdns.server.xdp.kernel_errors import TablesFullError
from lbdns.server.xdp.kernel_plan import KernelPlan, OrderRegions
from tests.answering.asking import make_query
from tests.needs import needs
from tests.server.xdp.kernel_of_responder import PASS, SMALL, TX, kernel, run
from tests.server.xdp.packets import Datagram, payload_of

needs_kernel = needs(xdp=True, root=True)
MEMBERS: Final = 64
QUERY: Final = Datagram(make_query("pool.example"))
SWAPS: Final = 20_000  # a day of plans, 1,000,000, takes 2 minutes


def tail(member: int) -> bytes:
    return b"member  " + member.to_bytes(4, "big")


@contextmanager
def planned(members: int = MEMBERS) -> Iterator[tuple[KernelAnswers, KernelPlan]]:
    """Load a program that answers one question; the end of each response is the member's number."""
    with kernel() as answers:
        plan = answers.add_plan(members)
        variants = [(bytes(10), tail(member)) for member in range(members)]
        answers.publish_question(QUERY.payload[12:], 0, variants, plan)
        yield answers, plan


@pytest.fixture
def one_cpu() -> Iterator[int]:
    """Let this thread run on one CPU only, since each CPU has its own position in a plan."""
    before = os.sched_getaffinity(0)
    cpu = max(before)
    os.sched_setaffinity(0, {cpu})
    yield cpu
    os.sched_setaffinity(0, before)


def selected(answers: KernelAnswers) -> int:
    verdict, frame = run(answers, QUERY)
    assert verdict == TX
    return member_in(frame)


def member_in(frame: bytes) -> int:
    """Return the member that an answer names."""
    return int.from_bytes(payload_of(frame, QUERY)[-4:], "big")


orders = st.integers(1, 40).flatmap(
    lambda length: st.tuples(
        st.lists(st.integers(0, MEMBERS - 1), min_size=length, max_size=length), st.integers(0, length - 1)
    )
)


@pytest.fixture(scope="module")
def pool() -> Iterator[tuple[KernelAnswers, KernelPlan]]:
    with planned() as loaded:
        yield loaded


@needs_kernel
@pytest.mark.usefixtures("one_cpu")
@given(plans=st.lists(st.tuples(orders, st.integers(0, 100)), min_size=1, max_size=6))
def test_the_kernel_selects_as_a_cursor_does(
    pool: tuple[KernelAnswers, KernelPlan], plans: list[tuple[tuple[list[int], int], int]]
) -> None:
    cursor = PlanCursor(MEMBERS)
    answers, plan = pool
    before = plan.counts()
    for (order, repeat_from), queries in plans:
        plan.publish(order, repeat_from)
        cursor.set_plan(Plan(tuple(order), repeat_from))
        assert [selected(answers) for _ in range(queries)] == [cursor.next() for _ in range(queries)]
    assert [now - then for now, then in zip(plan.counts(), before, strict=True)] == cursor.totals()


@needs_kernel
def test_each_cpu_begins_at_its_own_position(one_cpu: int) -> None:
    with planned() as (answers, plan):
        plan.publish(range(10), 0, stride=3)
        assert [selected(answers) for _ in range(3)] == [(3 * one_cpu + n) % 10 for n in range(3)]


@needs_kernel
def test_bad_plans_are_refused_and_the_old_one_stays() -> None:
    with planned(4) as (answers, plan):
        plan.publish([2], 0)
        for order, repeat_from, stride in (
            ([], 0, 0),
            ([1], 1, 0),
            ([1], -1, 0),
            ([4], 0, 0),
            ([-1], 0, 0),
            ([1], 0, -1),
        ):
            with pytest.raises(ValueError, match="plan"):
                plan.publish(order, repeat_from, stride)
        with pytest.raises(TablesFullError, match="orders"):
            plan.publish([1] * SMALL.order_words, 0)
        assert selected(answers) == 2
        plan.publish([3] * (SMALL.order_words // 8), 0)
        assert selected(answers) == 3


def swap_while_answering(swaps: int) -> int:
    """Replace a plan many times while another thread answers, and return the number of answers.

    All of a plan's members are the same, and its length is another one each time. A mixture of two plans would select a
    member that no plan of the moment names. If the program is interrupted while a plan is replaced twice, it must leave
    the query to the sockets.
    """
    published = [0, 0]  # the last plan that was published, and the one that is being published
    wrong: list[tuple[int, int, int]] = []
    ended = threading.Event()
    number = 0

    def answer(answers: KernelAnswers) -> None:
        nonlocal number
        while not ended.is_set():
            first = published[0]
            verdict, frame = run(answers, QUERY)
            if verdict == PASS:
                continue
            member = member_in(frame)
            if not any(plan % MEMBERS == member for plan in range(first, published[1] + 1)):
                wrong.append((first, member, published[1]))
            number += 1

    with planned() as (answers, plan):
        answers.renew(3600.0)
        plan.publish([0], 0)
        thread = threading.Thread(target=answer, args=(answers,))
        thread.start()
        try:
            for swap in range(1, swaps + 1):
                published[1] = swap
                plan.publish([swap % MEMBERS] * (1 + swap * 7 % 100), swap % 3 % (1 + swap * 7 % 100))
                published[0] = swap
        finally:
            ended.set()
            thread.join()
        assert wrong == []
        totals = answers.totals()
        assert totals["passed"] == totals["no_plan"] <= number // 100
        assert sum(plan.counts()) == number
    return number


@needs_kernel
def test_no_answer_follows_a_mixture_of_two_plans() -> None:
    assert swap_while_answering(SWAPS) > 100


def test_regions_are_used_again() -> None:
    regions = OrderRegions(memoryview(bytearray(8 * 48)).cast("Q"))
    assert [regions.take(16), regions.take(16), regions.take(16)] == [0, 16, 32]
    with pytest.raises(TablesFullError):
        regions.take(16)
    regions.give_back(16, 16)
    assert regions.take(16) == 16


def test_generations_differ_and_are_never_0() -> None:
    regions = OrderRegions(memoryview(bytearray(8)).cast("Q"))
    regions._generation = 0xFFFFFFFE
    assert [regions.new_generation() for _ in range(3)] == [0xFFFFFFFF, 1, 2]
