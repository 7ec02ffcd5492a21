"""The local answerer: answers queries in one process (a worker or, if ``workers = 1``, the main process)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.pool_cursors import all_totals
from lbdns.answering.relayed_query import RelayedQuery
from lbdns.answering.responder import DeferredAnswer, Responder
from lbdns.answering.table_warm_up import warm_up
from lbdns.counting.answer_counters import NO_ANSWERS, NO_COUNTS, AnswerCounters, added, count_answers, count_selections
from lbdns.counting.event_loop_lag import EventLoopLag
from lbdns.counting.response_times import ResponseTimes
from lbdns.events.event_log import EventLog
from lbdns.model.checked_configuration import build_score
from lbdns.model.farm import Pool
from lbdns.model.other_answers import OtherAnswers
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Snapshot
from lbdns.planning.explanation import full_owner
from lbdns.planning.planner import Planner
from lbdns.process.apply_configuration import PreparedChange
from lbdns.server.dns_service import AnsweringConfiguration
from lbdns.server.forwarding.forwarder import Forwarder
from lbdns.server.query_log.query_sampler import Reply
from lbdns.server.transport.listeners import Listeners
from lbdns.server.transport.rate_limit_log import RateLimitLog
from lbdns.server.xdp.kernel_answering import KernelAnswering
from lbdns.sockets.dns_sockets import NumberedSockets, duplicates
from lbdns.sockets.read_watch import ReadWatch
from lbdns_shared.errors import LbdnsError
from lbdns_shared.log_writer import lost_lines


class LocalAnswerer:
    """An ``Answerer`` that combines the responder, listeners, forwarder and planner of one process."""

    workers = 1
    restarts = 0

    def __init__(
        self,
        table: AnswerTable,
        secrets: Sequence[bytes] = (),
        servers: int = 1,
        number: int = 0,
        events: EventLog | None = None,
    ) -> None:
        """``secrets`` contains the secrets for DNS cookies.

        ``servers`` is the number of answering processes; ``number`` is the index of this process. ``events`` records
        changes in members' states; it is None in a worker, because the main process records these changes.
        """
        self._number = number
        self._parts = build_score(table.farm.config).parts
        self._servers, self._secrets = servers, secrets
        self.responder = Responder(table, secrets, servers)
        self.durations = ResponseTimes()
        self._forwarder = Forwarder(table.farm.config.forward, self.responder)
        self.listeners = Listeners(self.responder, self.durations, self._run_deferred)
        loop = asyncio.get_running_loop()
        self._limit_log = RateLimitLog(self.responder)
        self._lag = EventLoopLag("main" if events else "worker")
        self._wanted: Set[int] = frozenset()  # the sockets that this process must answer on
        self._watch = ReadWatch(lambda: self.listeners.watched)
        self.planner = Planner(table.farm, table.cursors, loop, events=events)
        self.responder.explainer = self.explain_now
        self._kernel: KernelAnswering | None = None  # answers too
        self._past = NO_COUNTS  # counters of members and names that the configuration no longer has
        self._past_answers = self._past.by_pool()

    def share_answers(self, kernel: KernelAnswering) -> None:
        """Let the kernel answer common queries too, from the same answers and plans."""
        self._kernel = kernel
        self.durations.begin_source(kernel.times)
        kernel.begin(self.responder.table)

    async def prepare(self, new: AnsweringConfiguration) -> PreparedChange:
        await self.warm_up(new.table, new.secrets)
        (sockets,) = new.sockets
        fresh = duplicates({number: sockets[number] for number in sockets.keys() - self.listeners.numbers})
        return self.prepare_change(new.table, new.secrets, fresh, set(sockets))

    async def warm_up(self, table: AnswerTable, secrets: Sequence[bytes]) -> None:
        """Prepare ``table``, which is not in use yet, for the queries that this process gets."""
        in_use = self.responder.table
        if table is not in_use:
            for _ in warm_up(table, in_use, bool(secrets)):
                await asyncio.sleep(0)

    def prepare_change(
        self, table: AnswerTable, secrets: Sequence[bytes], fresh: NumberedSockets, wanted: set[int]
    ) -> PreparedChange:
        """Return a change that makes this process answer from ``table`` on the sockets whose numbers are in ``wanted``.

        ``fresh`` contains the sockets on which this process does not answer queries yet. The change owns the ``fresh``
        sockets.
        """

        def commit() -> None:
            if table is self.responder.table:
                if secrets != self._secrets:
                    with self.listeners.paused():
                        self.responder.use(table, secrets, self._servers)
            else:
                self._use(table, secrets)
            self._secrets = secrets
            self.listeners.log_queries(table.farm)

        async def finish() -> None:
            try:
                await self.listeners.take_up(fresh)
                await self.listeners.leave(self.listeners.numbers - wanted, for_good=True)
            finally:
                self._wanted = wanted

        async def rollback() -> None:
            for sock in fresh.values():
                sock.close()

        return PreparedChange("answers", commit, finish, rollback)

    def _use(self, table: AnswerTable, secrets: Sequence[bytes]) -> None:
        if self._kernel:
            self._kernel.end()
        with self.listeners.paused():
            before = self._current_counters()
            table.take_over(self.responder.table)
            self.planner.continue_with(table.farm, table.cursors)  # a new cursor names all members, also drained ones
            self.responder.use(table, secrets, self._servers)
        # Not during the pause, because queries wait meanwhile: until a pool is planned, its old plan continues
        self._forwarder.reconfigure(table.farm.config.forward)
        self.planner.use(table.farm, table.cursors)
        self._parts = build_score(table.farm.config).parts
        self._past += before.beyond(self._current_counters())
        self._past_answers = self._past.by_pool()
        if self._kernel:
            self._kernel.begin(table)

    def deliver(self, snapshot: Snapshot) -> None:
        self.planner.deliver(snapshot)

    def override(self, overrides: Overrides) -> None:
        self.planner.override(overrides)

    def count_others(self, answers: OtherAnswers) -> None:
        self.planner.count_others(answers)

    async def explain(self, pool: Pool, owner: str) -> Mapping[str, Any]:
        if (found := self.explain_now(pool, owner)) is None:
            raise LbdnsError(f"{full_owner(pool, owner)}: a reload is in progress; try again")
        return found

    def explain_now(self, pool: Pool, owner: str) -> Mapping[str, Any] | None:
        """Return the explanation for a name, or None if this process selects no member for it."""
        found = self.planner.explain(pool, owner, self._parts)
        return found and {**found, "worker": self._number, "workers": self._servers}

    def upcoming(self, pool: Pool) -> Mapping[str, Any]:
        return self.planner.upcoming(pool)

    @property
    def fault(self) -> str:
        missing = len(self._wanted - self.listeners.numbers)
        if missing or not self._wanted:
            return f"not answering on {missing or 'any'} of its sockets"
        return self._watch.fault

    @property
    def queries(self) -> int:
        return self.durations.queries

    def asked(self) -> Mapping[tuple[str, int, str, int], int]:
        return added(self.responder.table.queries(), self._past.asked)

    def answers(self, pool: str) -> Counter[str]:
        answers = self._past_answers.get(pool, NO_ANSWERS).copy()
        table = self.responder.table
        names = [member.full_name for p in table.farm.pools if p.name == pool for member in p.selectable]
        for (name, _), handout in table.cursors.items():
            if name == pool:
                answers.update(dict(zip(names, all_totals(handout), strict=True)))
        return answers

    def answers_by_policy(self) -> Mapping[tuple[str, str, str], int]:
        return count_selections(self.responder.table)

    def shadow_counters(self) -> AnswerCounters:
        return self.planner.shadow_counters() + self._past

    def counters(self) -> AnswerCounters:
        return self._current_counters() + self._past

    async def refresh(self) -> None:
        """No-op: the counters of this process are always up to date."""

    async def stop(self) -> None:
        if self._kernel:
            self._kernel.close()
        await self.listeners.close()
        self._forwarder.stop()
        self._limit_log.stop()
        self._lag.stop()
        self._watch.stop()
        self.planner.stop()

    def _run_deferred(self, deferred: DeferredAnswer, reply: Reply) -> None:
        if isinstance(deferred, RelayedQuery):  # a connection sends its own zone transfer
            self._forwarder.relay(deferred, reply)

    def _current_counters(self) -> AnswerCounters:
        named = {**self.listeners.counters(), **self.responder.counters(), **self._forwarder.counters()}
        named["log_lines_lost"] = lost_lines()
        if self._kernel:
            named = Counter(named) + self._kernel.counters()
        counted = count_answers(self.responder.table, self.durations, named, self.listeners.levels())
        return counted + self.planner.shadow_counters() + self._lag.figures()
