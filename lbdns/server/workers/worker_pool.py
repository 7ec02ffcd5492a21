"""The worker pool: several processes that answer queries and switch to new configurations together. An ``Answerer``."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgpack

from lbdns.counting.answer_counters import AnswerCounters, read_counters
from lbdns.counting.event_loop_lag import EventLoopLag
from lbdns.events.event_log import EventLog
from lbdns.model.farm import Farm, Pool
from lbdns.model.other_answers import OtherAnswers
from lbdns.model.overrides import Overrides
from lbdns.model.snapshot import Snapshot
from lbdns.planning.explanation import full_owner
from lbdns.planning.planner import Planner
from lbdns.process.apply_configuration import PreparedChange
from lbdns.server.dns_service import AnsweringConfiguration
from lbdns.server.workers.fork_server import SHUTDOWN_PATIENCE, ForkServer
from lbdns.server.workers.upcoming_answers import UpcomingAnswers
from lbdns.server.workers.worker_counters import AnswerSharing, WorkerCounters, read_answers
from lbdns.server.workers.worker_process import WorkerProcess
from lbdns.server.workers.worker_supervisor import WorkerSupervisor
from lbdns_shared.errors import LbdnsError
from lbdns_shared.log_writer import lost_lines

log = logging.getLogger("lbdns.server")

#: s for a worker to prepare a configuration; one with a million names takes about half of this time
PREPARE_PATIENCE: Final = 30.0
SWITCH_PATIENCE: Final = 10.0  # s for a worker to switch to a configuration that it has prepared
ATTEMPTS: Final = 2  # processes of one worker that may fail to prepare a configuration before it is rolled back
EXPLAIN_PATIENCE: Final = 2.0  # s for a worker to explain an answer
KEPT_EXPLANATIONS: Final = 100  # requests after which an explanation that was not fetched is dropped
SHOWN_FAULTS: Final = 3  # faults of workers in one message; there may be 256 workers
REFRESH_PATIENCE: Final = 0.5  # s to wait for counters; a worker that is too busy reports them later


@dataclass(frozen=True, slots=True)
class _Generation:
    """A configuration in the form that is sent to workers."""

    number: int
    configuration: AnsweringConfiguration
    farm: bytes  # pickled, for processes that do not have it
    new_farm: bool  # whether the farm differs from that of the previous generation


class WorkerPool:
    """An answerer that consists of several workers with the same configuration, snapshot and overrides."""

    def __init__(
        self,
        farm: Farm,
        fork_servers: Sequence[ForkServer],
        workers: int,
        on_loss: Callable[[str], None],
        events: EventLog,
    ) -> None:
        """``on_loss`` is called with a reason when workers can no longer be replaced."""
        loop = asyncio.get_running_loop()
        self._counters = WorkerCounters()
        counters = self._counters
        self.planner = Planner(
            farm, {}, loop, events=events, answers=counters.answers, site_answers=counters.site_answers
        )
        self.workers = workers
        self._workers = [WorkerProcess(number) for number in range(workers)]
        self._supervisor = WorkerSupervisor(fork_servers, self, on_loss, events)
        self._committed: _Generation | None = None
        self._pending: _Generation | None = None  # prepared, or being prepared
        self._generations = 0
        self._lag = EventLoopLag("main")
        self._sharing = AnswerSharing(loop, self._send_other_answers)
        self._upcoming = UpcomingAnswers(self._ask_upcoming)
        self._requests = 0
        self._explanations: dict[int, Mapping[str, Any] | None] = {}  # by request
        self._progress = asyncio.Event()  # set whenever a worker replies or ends
        self._stopping = False

    @property
    def restarts(self) -> int:
        return self._supervisor.restarts

    @property
    def fault(self) -> str:
        faults = [f"worker {worker.number} {fault}" for worker in self._workers if (fault := worker.fault)]
        more = f"; and {len(faults) - SHOWN_FAULTS} more workers" if len(faults) > SHOWN_FAULTS else ""
        return "; ".join(faults[:SHOWN_FAULTS]) + more

    # Configurations

    async def prepare(self, new: AnsweringConfiguration) -> PreparedChange:
        """Make every worker build its answer table.

        A worker that hangs or dies while preparing is replaced, and the new process prepares instead. If the new
        process also fails, the change is rolled back.
        """
        before = self._committed
        new_farm = before is None or before.configuration.farm is not new.farm
        if before and not new_farm:
            farm = before.farm
        else:  # in a thread, so that reports and pages are handled meanwhile
            farm = await asyncio.to_thread(pickle.dumps, new.farm, pickle.HIGHEST_PROTOCOL)
        self._generations += 1
        self._pending = pending = _Generation(self._generations, new, farm, new_farm)
        for worker in self._workers:
            worker.failures = 0
            if worker.channel:
                worker.send_assignment(pending.number, farm if new_farm else b"", new)
            elif before is None:
                self._supervisor.start(worker)
        try:
            await self._all_ready(pending.number)
        except BaseException:
            await self._roll_back(pending)
            raise
        return PreparedChange(
            "workers",
            partial(self._commit, pending),
            partial(self._all_active, pending),
            partial(self._roll_back, pending),
        )

    def _commit(self, new: _Generation) -> None:
        before, self._committed, self._pending = self._committed, new, None
        if before and new.new_farm:
            self.planner.use(new.configuration.farm, {})
            self._upcoming.forget()
        for worker in self._workers:
            self._switch(worker, new.number)

    async def _roll_back(self, pending: _Generation) -> None:
        self._pending = None
        for worker in self._workers:
            worker.send(("discard", pending.number))

    def _switch(self, worker: WorkerProcess, generation: int) -> None:
        worker.send_switch(generation)
        if worker.channel and not self._sharing.knows(worker.number):
            worker.send(("other_answers", self._sharing.begin(worker.number)))

    async def _all_ready(self, generation: int) -> None:
        """Wait until every worker has prepared. Replace slow workers. Raises LbdnsError if a worker fails."""

        def late() -> list[WorkerProcess]:
            return [worker for worker in self._workers if worker.ready < generation]

        def is_over() -> bool:
            return not late() or self._stopping or any(worker.failures >= ATTEMPTS for worker in self._workers)

        for _ in range(ATTEMPTS):
            if await self._until(is_over, PREPARE_PATIENCE):
                break
            self._replace(late(), "hangs")
        if failed := [worker for worker in late() if worker.failures >= ATTEMPTS] or late():
            numbers = ", ".join(str(worker.number) for worker in failed)
            raise LbdnsError(f"workers {numbers} can't use the new configuration; see the log for the reason")

    async def _all_active(self, new: _Generation) -> None:
        """Wait until every worker answers from the committed configuration. Replace slow workers."""

        def late() -> list[WorkerProcess]:
            return [worker for worker in self._workers if worker.active < new.number]

        if not await self._until(lambda: not late() or self._stopping, SWITCH_PATIENCE):
            self._replace(late(), "hangs")
            await self._until(lambda: not late() or self._stopping, PREPARE_PATIENCE)

    def _replace(self, workers: Sequence[WorkerProcess], why: str) -> None:
        for worker in workers:
            self._supervisor.replace(worker, why)

    # The owner of worker processes (see WorkerOwner)

    def started(self, worker: WorkerProcess) -> None:
        if self._committed:
            # First, since its sockets can then be sent at once, even if no descriptor is left to keep them in a queue
            worker.send_assignment(self._committed.number, self._committed.farm, self._committed.configuration)
        worker.send_snapshot(self.planner.snapshot, {}, even_if_behind=True)
        worker.send(("overrides", self.planner.overrides))
        if self._committed:
            self._switch(worker, self._committed.number)
        if self._pending:
            has_farm = self._committed and not self._pending.new_farm
            farm = b"" if has_farm else self._pending.farm
            worker.send_assignment(self._pending.number, farm, self._pending.configuration)

    def received(self, worker: WorkerProcess, payload: bytes) -> None:
        try:
            self._take(worker, *msgpack.unpackb(payload))
        except (ValueError, TypeError) as error:
            self._replace([worker], f"sent an invalid message ({error})")

    def drained(self, worker: WorkerProcess) -> None:
        worker.send_snapshot(self.planner.snapshot, {})

    def ended(self, worker: WorkerProcess) -> None:
        if self._pending:
            worker.failures += 1
        self._counters.end(worker.number)
        self._sharing.lose(worker.number)
        self._progress.set()

    def _take(self, worker: WorkerProcess, what: str, number: int, state: Any = None) -> None:
        """Handle a message from ``worker``. Raises ValueError or TypeError if the message is not valid."""
        if what == "ready":
            worker.ready = number
        elif what == "active":
            worker.active = number
            self._supervisor.answers(worker)
        elif what == "heartbeat":
            worker.take_heartbeat(str(state))
            return  # no progress that anybody waits for
        elif what == "counters":
            self._counters.take(worker.number, read_counters(state))
            worker.replied = max(worker.replied, number)
        elif what == "upcoming":
            if not isinstance(state, dict):
                raise ValueError("a worker must send its upcoming answers as a map")
            self._upcoming.take(number, state)
            return
        elif what == "answers":
            self._sharing.take(worker.number, read_answers(state))
        elif what == "explain":
            if state is not None and not isinstance(state, dict):
                raise ValueError("a worker must send an explanation as a map")
            oldest = self._requests - KEPT_EXPLANATIONS
            self._explanations = {n: kept for n, kept in self._explanations.items() if n > oldest}
            self._explanations[number] = state
        self._progress.set()

    # Snapshots, overrides, explanations

    def deliver(self, snapshot: Snapshot) -> None:
        self.planner.snapshot = snapshot  # set before it is sent, since ``drained`` sends it from here
        written: dict[int, bytes] = {}
        for worker in self._workers:
            worker.send_snapshot(snapshot, written)
        self.planner.deliver(snapshot)

    def override(self, overrides: Overrides) -> None:
        for worker in self._workers:
            worker.send(("overrides", overrides))
        self.planner.override(overrides)

    def count_others(self, answers: OtherAnswers) -> None:
        for worker in self._workers:
            if not worker.is_behind:  # a worker that is behind counts fewer answers than there were
                worker.send(("others", answers))

    async def explain(self, pool: Pool, owner: str) -> Mapping[str, Any]:
        name = full_owner(pool, owner)
        # Ask two workers and use the first reply, since one of them may hang
        asked = [worker for worker in self._workers if worker.channel and worker.active][:2]
        self._requests += 1
        request = self._requests
        for worker in asked:
            worker.send(("explain", (request, pool.name, owner)))
        await self._until(lambda: request in self._explanations or not any(w.channel for w in asked), EXPLAIN_PATIENCE)
        if request not in self._explanations:
            raise LbdnsError(f"{name}: no worker replied within {EXPLAIN_PATIENCE:g} s; try again")
        found = self._explanations.pop(request)
        if found is None:
            raise LbdnsError(f"{name}: a reload is in progress; try again")
        return found

    def upcoming(self, pool: Pool) -> Mapping[str, Any]:
        return self._upcoming.read(pool.name)

    def _ask_upcoming(self, number: int, pool: str) -> bool:
        ready = [worker for worker in self._workers if not worker.fault and not worker.is_behind]
        if ready:
            ready[0].send(("upcoming", (number, pool)))
        return bool(ready)

    def _send_other_answers(self, number: int, answers: Mapping[tuple[str, str], int]) -> bool:
        worker = self._workers[number]
        if worker.is_behind:
            return False
        worker.send(("other_answers", answers))
        return True

    # Counters

    @property
    def queries(self) -> int:
        return self._counters.sum().queries

    def asked(self) -> Mapping[tuple[str, int, str, int], int]:
        return self._counters.sum().asked

    def answers(self, pool: str) -> Counter[str]:
        return self._counters.answers(pool)

    def answers_by_policy(self) -> Mapping[tuple[str, str, str], int]:
        return self._counters.sum().answers

    def shadow_counters(self) -> AnswerCounters:
        return self._counters.sum()

    def counters(self) -> AnswerCounters:
        return self._counters.sum() + self._lag.figures() + AnswerCounters(named={"log_lines_lost": lost_lines()})

    async def refresh(self) -> None:
        self._requests += 1
        request = self._requests
        asked = [worker for worker in self._workers if worker.channel]
        for worker in asked:
            worker.send(("counters", request))
        await self._until(lambda: all(w.replied >= request or not w.channel for w in asked), REFRESH_PATIENCE)

    async def stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        self.planner.stop()
        self._sharing.stop()
        self._lag.stop()
        self._supervisor.begin_stop()
        for worker in self._workers:
            worker.send(("end", None))
        if not await self._until(lambda: not any(worker.channel for worker in self._workers), SHUTDOWN_PATIENCE):
            log.error("killed a worker that did not exit within %g s", SHUTDOWN_PATIENCE)
        await self._supervisor.stop()

    async def _until(self, condition: Callable[[], bool], patience: float) -> bool:
        """Wait up to ``patience`` seconds until ``condition`` is true, and return its last value.

        The condition is checked whenever a worker replies or ends.
        """
        try:
            async with asyncio.timeout(patience):
                while not condition():
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return condition()
        return True
