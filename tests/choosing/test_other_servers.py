"""Other servers' answers: rates, charges between reports, and what a server that lies can reach."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from lbdns.choosing.answer_tally import AnswerTally
from lbdns.choosing.other_servers import OtherServers
from lbdns.policies.least_charged import least_charged
from lbdns.policies.plan import Plan, Selections
from tests.policies.views import hand_out, member, view

LONG_AGO = (0.0, 0.0, 0.0)


def heard(*servers: int) -> frozenset[int]:
    return frozenset(servers)


def test_only_servers_that_are_heard_and_have_answered_lately_count() -> None:
    others = OtherServers(1)
    others.hear(heard(1, 2))
    assert others.number(1.0) == 0, "neither has answered for this pool"
    others.add(1, [5], 0.25, [0.0], 1.0)
    others.add(3, [5], 0.25, [0.0], 1.0)
    assert (others.number(1.0), others.number(10.9), others.number(11.1)) == (1, 1, 0)
    others.hear(heard(2))
    assert others.number(1.1) == 0
    assert others.answers(1.1) == 10, "the clients of a silent server are still there"


def test_answers_are_charged_until_the_members_next_report() -> None:
    others = OtherServers(2)
    others.add(1, [10, 20], 0.25, [9.0, 9.0], 10.0)
    charges = others.charges([1.0, 1.0], [9.0, 9.0], [0, 1], 1e6, 10.0)
    assert charges == pytest.approx([10.0, 20.0])
    others.start_round([0])
    assert others.charges([1.0, 1.0], [10.0, 9.0], [0, 1], 1e6, 10.0) == pytest.approx([0.0, 20.0])


def test_answers_before_a_report_in_the_same_period_are_not_charged() -> None:
    others = OtherServers(2)
    others.add(1, [100, 100], 0.2, [10.0 - 0.05, 5.0], 10.0)
    charges = others.charges([1.0, 1.0], [10.0 - 0.05, 5.0], [0, 1], 1e6, 10.0)
    assert charges == pytest.approx([25.0, 100.0])


def test_a_member_without_a_report_has_a_finite_charge() -> None:
    others = OtherServers(2)
    others.add(1, [3, 3], 0.25, [float("-inf")] * 2, 10.0)
    assert others.charges([1.0, 1.0], [float("-inf")] * 2, [0, 1], 1e6, 10.0) == pytest.approx([3.0, 3.0])


def test_a_reload_keeps_the_claims_of_remaining_members() -> None:
    old, new = OtherServers(2), OtherServers(2)
    old.hear(heard(1))
    old.add(1, [1, 2], 0.25, [0.0, 0.0], 1.0)
    new.take_over(old, [1, None])
    assert new.charges([1.0, 1.0], [0.0, 0.0], [0, 1], 1e6, 1.0) == pytest.approx([2.0, 0.0])
    assert (new.number(1.0), new.answers(1.0)) == (1, 3)


def test_the_answers_of_servers_that_are_not_heard_are_extrapolated() -> None:
    tally = AnswerTally(1, servers=4)
    tally.others.hear(heard(1))
    tally.add_own("best", Selections(Plan((0,)), (10,), None), 1.0)
    assert (tally.unheard_factor(1.0), tally.multiplier(1.0)) == (4.0, 4.0)
    tally.add_others(1, "best", [30], 0.25, [0.0], 1.0)
    assert tally.unheard_factor(1.0) == 2.0, "two of four servers are counted"
    assert tally.multiplier(1.0) == 2 * 4
    assert tally.rate("best", 1.0) == pytest.approx(2 * 40)
    assert tally.all_charges([1.0], [0.0], [0], 1.0) == pytest.approx([40.0 + 2 * 30.0])


def test_more_servers_than_configured() -> None:
    tally = AnswerTally(1, servers=1)
    tally.others.hear(heard(1, 2))
    for server in (1, 2):
        tally.add_others(server, "best", [10], 0.25, [0.0], 1.0)
    tally.add_own("best", Selections(Plan((0,)), (10,), None), 1.0)
    assert (tally.unheard_factor(1.0), tally.servers_known(1.0), tally.multiplier(1.0)) == (1.0, 3, 3.0)
    assert tally.charges == [10.0], "the others' answers are charged as they state them, not by this server's"


@pytest.mark.parametrize(
    ("members", "most"), [pytest.param(3, 0.56, id="three members"), pytest.param(10, 0.2, id="ten members")]
)
def test_a_server_that_lies_cannot_take_a_pool(members: int, most: float) -> None:
    tally = AnswerTally(members, servers=1)
    tally.others.hear(heard(7))
    reported = [100.0] * members
    for step in range(40):  # this server answers 120 queries per second
        tally.add_own("least_charged", Selections(Plan((0,)), (30,) + (0,) * (members - 1), None), 90 + step / 4)
    tally.start_round(range(members))
    tally.add_others(7, "least_charged", [0] + [100_000] * (members - 1), 1.0, reported, 101.0)
    charges = tally.all_charges([100.0] * members, reported, range(members), 101.0)
    seen = view(*(member(capacity=100.0, charge=charge) for charge in charges))
    shares = Counter(hand_out(least_charged(seen, None, Random(1)), 120))
    assert shares[0] / 120 <= most + 0.02
