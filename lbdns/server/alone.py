"""Answering in one process, in its event loop: what ``lbdns serve`` does with one worker, and what each worker does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lbdns.answering.errand import Errand, Relay
from lbdns.answering.respond import Responder
from lbdns.answering.table import Table
from lbdns.errors import LbdnsError
from lbdns.events import Events
from lbdns.explanation import full_owner
from lbdns.farm import Pool
from lbdns.overrides import Overrides
from lbdns.server.answerer import Work
from lbdns.server.figures import NO_ANSWERS, NOTHING, Figures, added, figures_of
from lbdns.server.forwarding.forward import Forwarder
from lbdns.server.net.durations import Durations
from lbdns.server.net.lag import LoopLag
from lbdns.server.net.limit_log import LimitLog
from lbdns.server.net.listeners import Listeners
from lbdns.server.net.sockets import Numbered
from lbdns.server.plans import Planner
from lbdns.snapshot import Snapshot
from lbdns_collector.score import build_score


class Alone:
    """Responder, sockets and plans of one process, one of ``servers`` that answer for the farm."""

    workers = 1
    restarts = 0

    def __init__(
        self,
        table: Table,
        secrets: Sequence[bytes] = (),
        servers: int = 1,
        number: int = 0,
        events: Events | None = None,
    ) -> None:
        """``secrets`` are those of cookies; ``number`` tells this process from the others; ``events``: where to tell
        what becomes of members, if that is not for the main process to do."""
        self._number = number
        self._parts = build_score(table.farm.config).parts
        self._servers = servers
        self.responder = Responder(table, secrets, servers)
        self.durations = Durations()
        self._forwarder = Forwarder(table.farm.config.forward, self.responder)
        self.listeners = Listeners(self.responder, self.durations, self._run)
        loop = asyncio.get_running_loop()
        self._limit_log = LimitLog(self.responder)
        self._limit_log.start(loop)
        self._lag = LoopLag("main" if events else "worker")
        self.planner = Planner(table.farm, table.handouts, loop, events=events)
        self.responder.explainer = self.explain_now
        self._gone = NOTHING  # what tables counted that the next one knows nothing of: members and names that are gone
        self._gone_answers = self._gone.by_pool()

    async def use(self, work: Work) -> None:
        (sockets,) = work.sockets
        fresh = {number: sockets[number].dup() for number in sockets.keys() - self.listeners.numbers}
        await self.go_on(work.table, work.secrets, fresh, set(sockets))

    async def go_on(self, table: Table, secrets: Sequence[bytes], fresh: Numbered, wanted: set[int]) -> None:
        """Answer from ``table``, on the ``fresh`` sockets too, which are ours from now on, and on those ``wanted``
        alone."""
        old = self.responder.table
        if table is not old:
            before = self._counted()
            table.take_over(old)
            self.responder.use(table, secrets, self._servers)
            self._forwarder.reconfigure(table.farm.config.forward)
            self.planner.use(table.farm, table.handouts)
            self._parts = build_score(table.farm.config).parts
            self._gone += before.beyond(self._counted())
            self._gone_answers = self._gone.by_pool()
        self.listeners.log_queries(table.farm)
        await self.listeners.take_up(fresh)
        await self.listeners.leave(self.listeners.numbers - wanted, for_good=True)

    def deliver(self, snapshot: Snapshot) -> None:
        self.planner.deliver(snapshot)

    def override(self, overrides: Overrides) -> None:
        self.planner.override(overrides)

    async def explain(self, pool: Pool, owner: str) -> Mapping[str, Any]:
        if (found := self.explain_now(pool, owner)) is None:
            raise LbdnsError(f"{full_owner(pool, owner)}: a reload is under way; ask again")
        return found

    def explain_now(self, pool: Pool, owner: str) -> Mapping[str, Any] | None:
        """What ``explain`` tells; None if nobody is handed out for that name here."""
        found = self.planner.explain(pool, owner, self._parts)
        return found and {**found, "worker": self._number, "workers": self._servers}

    def hear(self, elsewhere: Mapping[tuple[str, str], int]) -> None:
        """How many answers by pool and policy the other processes have given."""
        self.planner.hear(elsewhere)

    @property
    def queries(self) -> int:
        return self.durations.queries

    def asked(self) -> Mapping[tuple[str, int, str, int], int]:
        return added(self.responder.table.queries(), self._gone.asked)

    def answers(self, pool: str) -> Counter[str]:
        answers = self._gone_answers.get(pool, NO_ANSWERS).copy()
        table = self.responder.table
        names = [member.full_name for p in table.farm.pools if p.name == pool for member in p.members]
        for (name, _), handout in table.handouts.items():
            if name == pool:
                answers.update(dict(zip(names, handout.totals(), strict=True)))
        return answers

    def shadow_figures(self) -> Figures:
        return self.planner.shadow_figures() + self._gone

    def figures(self) -> Figures:
        return self._counted() + self._gone

    async def refresh(self) -> None:
        """Nothing is hidden here."""

    async def stop(self) -> None:
        await self.listeners.close()
        self._forwarder.stop()
        self._limit_log.stop()
        self._lag.stop()
        self.planner.stop()

    def _run(self, errand: Errand, reply: Callable[[bytes], None]) -> None:
        """What can't be answered at once. Transfers are the business of the connection they are asked over."""
        if isinstance(errand, Relay):
            self._forwarder.relay(errand, reply)

    def _counted(self) -> Figures:
        """What those count that are at work now."""
        named = {**self.listeners.counters(), **self.responder.counters(), **self._forwarder.counters()}
        counted = figures_of(self.responder.table, self.durations, named, self.listeners.levels())
        return counted + self.planner.shadow_figures() + self._lag.figures()
