"""Publishes precompiled responses and plans to the program in the kernel, and counts the program's answers. Sans-I/O.

The kernel answers a question once this process has answered it, and has precompiled the response. Answers that depend
on more than the question and the plan are left to this process: those of pools with sites, those that name several
members, and those that address family affinity may change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from lbdns.answering.dns_constants import UDP
from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.message_writer import Variant
from lbdns.answering.pool_cursors import PlanCursors
from lbdns.answering.query_shapes import FIRST_COOKIE_KIND
from lbdns.model.farm import Farm, Pool
from lbdns.policies.plan import Plan
from lbdns.server.xdp.kernel_errors import KernelError, TablesFullError

log = logging.getLogger("lbdns.xdp")

ENOUGH: Final = 100  # answers from which the number of busy CPUs is estimated


class PlanSlot(Protocol):
    """A plan in the kernel. While it has no plan, its questions are left to this process."""

    def publish(self, order: Sequence[int], repeat_from: int, stride: int) -> None:
        """Replace the plan whole. CPU number n follows it from position ``n * stride``. Raises TablesFullError."""

    def withdraw(self) -> None:
        """Follow no plan."""

    def counts(self) -> Sequence[int]:
        """Return how many times each member has been selected so far. Counts never decrease."""


PlanT = TypeVar("PlanT", bound=PlanSlot)


class KernelTables(Protocol[PlanT]):
    """The tables that the program in the kernel reads."""

    def add_plan(self, members: int) -> PlanT:
        """Return a new plan that selects among ``members`` members. Raises TablesFullError."""

    def publish_question(self, key: bytes, kind: int, variants: Sequence[Variant], plan: PlanT | None) -> None:
        """Answer queries of a kind for the question ``key``. Without a plan, there is only one variant.

        Raises TablesFullError, and ValueError if the kernel cannot answer with one of the variants.
        """

    def question_counts(self) -> Mapping[bytes, int]:
        """Return the number of answers so far by question."""

    def clear(self) -> None:
        """Withdraw all questions and plans."""

    def answered_by_cpu(self) -> Sequence[int]:
        """Return how many queries each CPU has answered so far."""

    def renew(self, seconds: float) -> None:
        """Answer for this many seconds from now, and not after. With 0, stop at once."""


@dataclass(slots=True)
class _Followed(Generic[PlanT]):
    """A plan cursor, and the plan in the kernel that follows it."""

    cursor: PlanCursor
    plan: PlanT
    counted: Sequence[int]  # selections by member that have been added to the cursor

    def count(self) -> None:
        totals = self.plan.counts()
        if totals != self.counted:
            counts = zip(totals, self.counted, strict=True)
            self.cursor.add_selections({member: now - before for member, (now, before) in enumerate(counts)})
            self.counted = totals


class KernelPublisher(Generic[PlanT]):
    """An ``AnswerFollower`` that keeps the tables of the program in the kernel up to date."""

    def __init__(self, tables: KernelTables[PlanT], fail: Callable[[Exception], None]) -> None:
        """``fail`` is called if the kernel refuses a change: it must make the kernel stop answering."""
        self._fail = fail
        self.is_full = False  # whether an answer or a plan found no room since the last reload
        self._tables = tables
        self._steady: frozenset[int] = frozenset()  # the numbers of cursors whose selections affinity never changes
        self._followed: dict[int, _Followed[PlanT]] = {}  # by the number of the cursor
        self._queries: dict[bytes, list[int]] = {}  # the counters of the questions' entries
        self._counted: dict[bytes, int] = {}  # answers that have been added to them
        self._by_cpu: Sequence[int] = tables.answered_by_cpu()
        self._cpus = 1  # that answer

    def use(self, farm: Farm, cursors: PlanCursors) -> None:
        """Publish answers and plans of this configuration from now on. Call ``forget`` first."""
        pools = {pool.name: pool for pool in farm.pools}
        self._steady = frozenset(c.number for (pool, _), c in cursors.items() if has_one_family(pools[pool]))

    def keep(
        self,
        key: bytes,
        cursor: PlanCursor | None,
        family: int | None,
        kind: int,
        variants: Sequence[Variant],
        queries: list[int],
    ) -> None:
        if kind >= FIRST_COOKIE_KIND or (cursor and family is not None and cursor.number not in self._steady):
            return
        with self._failing():
            try:
                plan = self._follow(cursor) if cursor else None
                self._tables.publish_question(key, kind, variants, plan)
            except TablesFullError as error:
                if not self.is_full:
                    log.warning("xdp: %s; the server itself answers the other questions", error)
                self.is_full = True
            except ValueError:
                pass  # too long for the kernel
            else:
                self._queries[key] = queries

    def _follow(self, cursor: PlanCursor) -> PlanT:
        followed = self._followed.get(cursor.number)
        if followed is None:
            plan = self._tables.add_plan(len(cursor.totals()))
            followed = self._followed[cursor.number] = _Followed(cursor, plan, plan.counts())
            cursor.on_plan = partial(self._set_plan, plan)
            self._set_plan(plan, cursor.plan)
        return followed.plan

    def _set_plan(self, slot: PlanSlot, plan: Plan) -> None:
        with self._failing():
            try:
                slot.publish(plan.order, plan.repeat_from, stride(plan, self._cpus))
            except TablesFullError:
                slot.withdraw()  # an earlier plan must not stay in force

    def count_selections(self) -> None:
        """Count all selections of members so far."""
        with self._failing():
            for followed in self._followed.values():
                followed.count()
            by_cpu = self._tables.answered_by_cpu()
            answers = [now - before for now, before in zip(by_cpu, self._by_cpu, strict=True)]
            if sum(answers) >= ENOUGH:
                self._by_cpu, self._cpus = by_cpu, busy_cpus(answers)

    def count(self) -> None:
        self.count_selections()
        with self._failing():
            for key, total in self._tables.question_counts().items():
                if count := total - self._counted.get(key, 0):
                    self._counted[key] = total
                    self._queries[key][UDP] += count

    def forget(self) -> None:
        with self._failing():
            self._tables.renew(0.0)
        self.count()
        with self._failing():
            self._tables.clear()
        self.leave()

    def leave(self) -> None:
        """Follow nothing from now on. The tables stay as they are."""
        for followed in self._followed.values():
            followed.cursor.on_plan = None
        self._followed, self._queries, self._counted = {}, {}, {}
        self.is_full = False

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (KernelError, OSError) as error:
            self._fail(error)


def busy_cpus(answers: Sequence[int]) -> int:
    """Return how many CPUs answer, given the answers of each; CPUs with few answers hardly count."""
    return round(sum(answers) ** 2 / sum(count**2 for count in answers))


def stride(plan: Plan, cpus: int) -> int:
    """Return the distance between the positions at which CPUs begin a plan.

    Together, they then follow the part of the plan for the expected answers once, as one process does. With one CPU,
    or for light traffic, each CPU begins at the beginning.
    """
    if cpus == 1 or plan.light:
        return 0
    expected = plan.repeat_from if plan.repeat_from > plan.probes else len(plan.order)
    return expected // cpus


def why_unpublished(pool: Pool) -> str:
    """Return why the kernel does not answer for the names of ``pool``, or an empty string if it does."""
    if pool.sites:
        return "its answers depend on the client's network"
    if pool.config.answers > 1:
        return "its answers name several members"
    if pool.config.coherence and not has_one_family(pool):
        return "address family affinity is on; set coherence = 0"
    return ""


def has_one_family(pool: Pool) -> bool:
    """Return whether only queries for one type name a member of ``pool``, so that affinity changes no selection."""
    return pool.config.answer == "address" and len({":" in a for m in pool.selectable for a in m.addresses}) == 1
