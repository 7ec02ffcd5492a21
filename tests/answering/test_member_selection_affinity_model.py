"""Compares address family affinity with a simple model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lbdns.answering.member_selection import AFFINITY_SLOTS, OPEN
from lbdns.answering.plane import Plane
from lbdns.policies.plan import Plan
from tests.answering.asking import TCP, UDP
from tests.answering.asking_types import AAAA, HTTPS, ONE, OTHER, SPAN, A, ask, new_responder, on_both
from tests.answering.farms import MEMBERS

# A model: the oldest living hand-out that this type has not been asked for yet


@dataclass
class Item:
    when: float
    member: int
    asked: set[int]


@dataclass
class Model:
    """A model of one cursor: its order, its selections, and the related queries still expected from each client."""

    order: Sequence[int] = (0, 1, 2)
    usable: Sequence[int] = (0, 1, 2)
    at: int = 0
    totals: list[int] = field(default_factory=lambda: [0, 0, 0])
    open: dict[str, list[Item]] = field(default_factory=dict)
    coherent: int = 0

    def set_plan(self, order: Sequence[int], usable: Sequence[int]) -> None:
        self.order, self.usable, self.at = order, usable, 0

    def hand_out(self) -> int:
        member = self.order[self.at % len(self.order)]
        self.at += 1
        self.totals[member] += 1
        return member

    def look_up(self, host: str, which: int | None, now: float) -> int:
        if which is None:
            return self.hand_out()
        items = self.open.setdefault(host, [])
        for item in items[-OPEN:]:
            if which not in item.asked and now - item.when < SPAN:
                item.asked.add(which)
                if item.member in self.usable:
                    self.coherent += 1
                else:
                    item.member = self.hand_out()
                return item.member
        items.append(Item(now, self.hand_out(), {which}))
        return items[-1].member


NAMES: Final = {"best.hobbit": "best", "weighted.hobbit": "weighted", "www.hobbit": "best", "BEST.hobbit": "best"}
HOSTS: Final = (ONE, "192.0.2.2", OTHER)


class Query(NamedTuple):
    name: str
    host: str
    rtype: str
    transport: int
    pause: float  # seconds before it


class NewPlan(NamedTuple):
    policy: str
    order: Sequence[int]
    others: Sequence[int]  # that could be handed out too


queries = st.builds(
    Query, st.sampled_from(sorted(NAMES)), st.sampled_from(HOSTS), st.sampled_from(("A", "AAAA", "HTTPS", "TXT")),
    st.sampled_from((UDP, UDP, TCP)), st.sampled_from((0.0, 0.0, 0.25, 0.5, 1.75)),
)  # fmt: skip
some = st.lists(st.integers(0, 2), min_size=1, max_size=4)
plans = st.builds(NewPlan, st.sampled_from(("best", "weighted")), some, some)


@on_both
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(queries, queries, queries, plans), min_size=1, max_size=40))
def test_agrees_with_a_simple_model(plane: Plane, steps: list[Query | NewPlan]) -> None:
    responder = new_responder(plane)
    handouts = {policy: responder.table.cursors["web", policy] for policy in ("best", "weighted")}
    marks = {
        responder.selector.affinity.mark(host, one.number) % AFFINITY_SLOTS
        for host in HOSTS
        for one in handouts.values()
    }
    assume(len(marks) == len(HOSTS) * len(handouts))  # of different slots, as nearly always
    models = {policy: Model() for policy in handouts}
    for step in steps:
        if isinstance(step, NewPlan):
            usable = (*step.order, *step.others)
            handouts[step.policy].set_plan(Plan(tuple(step.order)), usable)
            models[step.policy].set_plan(step.order, usable)
        else:
            responder.tick(responder.now + step.pause, 0.0)
            which = {"A": A, "AAAA": AAAA, "HTTPS": HTTPS}.get(step.rtype)
            expected = models[NAMES[step.name]].look_up(step.host, which, responder.now)
            assert ask(responder, step.host, step.rtype, step.name, step.transport) == MEMBERS[expected]
    for policy, model in models.items():
        assert handouts[policy].totals() == model.totals
    assert responder.counters()["coherent"] == sum(model.coherent for model in models.values())
