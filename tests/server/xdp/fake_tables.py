"""A fake of the program in the kernel, with its tables, and of links to interfaces."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from lbdns.answering.message_writer import Variant
from lbdns.answering.query_shapes import QUERY_SHAPES
from lbdns.server.xdp.kernel_errors import KernelError, TablesFullError
from lbdns.server.xdp.table_layouts import LimitRules

LONGEST_TAIL = 496  # bytes


class FakePlan:
    """A plan, its position and its counts."""

    def __init__(self, tables: FakeTables, members: int) -> None:
        self.order: Sequence[int] = ()
        self.repeat_from = self.stride = 0
        self.selections = [0] * members
        self._tables = tables
        self._at = 0

    def publish(self, order: Sequence[int], repeat_from: int, stride: int) -> None:
        if len(order) > self._tables.longest_order:
            raise TablesFullError("no room for a plan")
        self.order, self.repeat_from, self.stride, self._at = tuple(order), repeat_from, stride, 0

    def withdraw(self) -> None:
        self.order = ()

    def counts(self) -> Sequence[int]:
        return list(self.selections)

    def next(self) -> int:
        if self._at == len(self.order):
            self._at = self.repeat_from
        self._at += 1
        member = self.order[self._at - 1]
        self.selections[member] += 1
        return member


class FakeTables:
    """A ``KernelTables`` with room for ``room`` questions, for ``plans`` plans, and for plans of ``longest_order``."""

    def __init__(self, room: int = 1000, plans: int = 1000, longest_order: int = 100_000) -> None:
        self.room, self.room_for_plans, self.longest_order = room, plans, longest_order
        self.questions: dict[bytes, dict[int, Sequence[Variant]]] = {}
        self.plan_of: dict[bytes, FakePlan | None] = {}
        self.plans: list[FakePlan] = []
        self.answers: dict[bytes, int] = {}
        self.answered = 0
        self.by_cpu = [0, 0, 0, 0]
        self.lease = 3.0  # seconds; nothing is answered while it is 0

    def add_plan(self, members: int) -> FakePlan:
        if len(self.plans) == self.room_for_plans:
            raise TablesFullError("no room for a plan")
        self.plans.append(FakePlan(self, members))
        return self.plans[-1]

    def publish_question(self, key: bytes, kind: int, variants: Sequence[Variant], plan: FakePlan | None) -> None:
        if any(len(tail) > LONGEST_TAIL for _, tail in variants):
            raise ValueError("too long")
        if key not in self.questions and len(self.questions) == self.room:
            raise TablesFullError("no room for a question")
        assert len(variants) == (len(plan.selections) if plan else 1)
        self.questions.setdefault(key, {})[kind] = tuple(variants)
        self.plan_of[key] = plan
        self.answers.setdefault(key, 0)

    def question_counts(self) -> Mapping[bytes, int]:
        return dict(self.answers)

    def clear(self) -> None:
        for each in (self.questions, self.plan_of, self.plans, self.answers):
            each.clear()

    def answered_by_cpu(self) -> Sequence[int]:
        return list(self.by_cpu)

    def renew(self, seconds: float) -> None:
        self.lease = seconds

    def respond(self, query: bytes) -> bytes | None:
        """Return the response that the program sends, or None if it leaves the query to the sockets."""
        end = query.find(0, 12) + 5
        key, kind = query[12:end].lower(), QUERY_SHAPES.get(query[2:12] + query[end:])
        variants = self.questions.get(key, {}).get(-1 if kind is None else kind)
        plan = self.plan_of.get(key)
        if variants is None or not self.lease or (plan and not plan.order):
            return None
        self.answers[key] += 1
        self.answered += 1
        head, tail = variants[plan.next() if plan else 0]
        return query[:2] + head + query[12:end] + tail


class FakeLink:
    """A link to an interface, with a real descriptor."""

    def __init__(self, interface: int) -> None:
        self.interface = interface
        self.is_gone = False
        self._fd = os.open("/dev/null", os.O_RDONLY)

    @property
    def is_closed(self) -> bool:
        return self._fd < 0

    def fileno(self) -> int:
        return self._fd

    def is_attached(self) -> bool:
        return not self.is_gone

    def close(self) -> None:
        os.close(self._fd)
        self._fd = -1


class FakeProgram(FakeTables):
    """A ``KernelAnswers``. Another program is attached to the interfaces in ``busy``."""

    def __init__(self, rules: LimitRules, busy: Sequence[int] = ()) -> None:
        super().__init__()
        self.rules, self.busy = rules, busy
        self.published: set[tuple[str, int, int, bytes]] = set()
        self.links: list[FakeLink] = []
        self.taken: list[int] = []  # descriptors of the links that have been taken over
        self.failure: KernelError | None = None  # of each further change
        self.is_closed = False

    def publish_question(self, key: bytes, kind: int, variants: Sequence[Variant], plan: FakePlan | None) -> None:
        if self.failure:
            raise self.failure
        super().publish_question(key, kind, variants, plan)

    def set_rules(self, rules: LimitRules, truncated: Sequence[Variant]) -> None:
        if self.failure:
            raise self.failure
        assert len(truncated) == 6
        self.rules = rules

    def publish_address(self, host: str, port: int, interface: int, mac: bytes) -> None:
        self.published.add((host, port, interface, mac))

    def withdraw_address(self, host: str, port: int, interface: int) -> None:
        self.published = {each for each in self.published if each[:3] != (host, port, interface)}

    def totals(self) -> Mapping[str, int]:
        return {"answered": self.answered, "rate_limit_dropped": 3, "rate_limit_cut": 2}

    def attach(self, interface: int) -> FakeLink:
        if interface in self.busy:
            raise KernelError("another XDP program is attached")
        self.links.append(FakeLink(interface))
        return self.links[-1]

    def take_link(self, link: FakeLink) -> None:
        if self.failure:
            raise self.failure
        self.taken.append(link.fileno())

    def close(self) -> None:
        self.is_closed = True
