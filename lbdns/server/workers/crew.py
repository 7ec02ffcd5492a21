"""Answering in several processes: workers are started, given work, counted together, and replaced when they die."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgpack

from lbdns.errors import LbdnsError
from lbdns.events import Events
from lbdns.explanation import full_owner
from lbdns.farm import Farm, Pool
from lbdns.overrides import Overrides
from lbdns.server.answerer import Work
from lbdns.server.figures import NO_ANSWERS, NOTHING, Figures, read_figures, total
from lbdns.server.net.lag import LoopLag
from lbdns.server.net.sockets import Numbered
from lbdns.server.plans import Planner
from lbdns.server.workers.frames import Channel
from lbdns.server.workers.news import write_news
from lbdns.server.workers.nursery import FAREWELL, Nursery
from lbdns.server.workers.sharing import Sharing, read_answers
from lbdns.server.workers.worker import Assignment, Order
from lbdns.snapshot import EMPTY, Reading, Snapshot

log = logging.getLogger("lbdns.server")

PATIENCE: Final = 30.0  # s for a worker to go over to another configuration: a million names take about half
PROMPT: Final = 2.0  # s for a worker to explain an answer
KEPT_EXPLANATIONS: Final = 100  # that nobody may come for any more
REFRESH: Final = 0.5  # s that figures are waited for; a worker that is too busy to tell them will tell them later
SOUND: Final = 5.0  # s of life after which a death counts as the first
PAUSES: Final = (0.0, 0.05, 0.1, 0.2, 0.5)  # s before the first, second ... replacement of one that keeps dying


class _Worker:
    """One worker, whichever process it is just now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.channel: Channel | None = None
        self.known: Mapping[str, Reading] = EMPTY.readings  # what it was told of members
        self.figures: Figures = NOTHING
        self.generation = 0  # of the assignment it works by
        self.sockets: frozenset[int] = frozenset()
        self.told = 0  # the last request for figures it has answered
        self.born = 0.0
        self.deaths = 0  # one soon after another
        self.rebirth: asyncio.TimerHandle | None = None

    def tell(self, order: Order, sockets: tuple[socket.socket, ...] = ()) -> None:
        if self.channel:
            self.channel.send(pickle.dumps(order, pickle.HIGHEST_PROTOCOL), sockets)


class Crew:
    """Several workers, as one answerer."""

    def __init__(
        self, farm: Farm, nursery: Nursery, workers: int, on_loss: Callable[[str], None], events: Events
    ) -> None:
        """``on_loss`` is called, with the reason, when workers can no longer be replaced."""
        self.planner = Planner(farm, {}, asyncio.get_running_loop(), events=events, answers=self.answers)
        self._events = events
        self._explained: dict[int, Mapping[str, Any] | None] = {}  # by the number of the request
        self.restarts = 0
        self._pid = nursery.pid
        self._nursery: Channel | None = Channel(nursery.sock, self._hear_nursery, self._lose_nursery)
        self._on_loss = on_loss
        self._workers = [_Worker(number) for number in range(workers)]
        self._work: Work | None = None
        self._farm = b""
        self._generation = 0
        self._past: Figures = NOTHING  # of processes that have ended
        self._lag = LoopLag("main")
        self._sharing = Sharing(asyncio.get_running_loop(), self._tell_elsewhere)
        self._sum: Figures | None = NOTHING
        self._by_pool = (NOTHING, NOTHING.by_pool())  # of this sum
        self._requests = 0
        self._heard = asyncio.Event()  # set by whatever a worker says
        self._stopping = False

    @property
    def workers(self) -> int:
        return len(self._workers)

    async def use(self, work: Work) -> None:
        if self._work is None or work.farm is not self._work.farm:
            # In a thread: reports and pages have their turn meanwhile
            self._farm = await asyncio.to_thread(pickle.dumps, work.farm, pickle.HIGHEST_PROTOCOL)
            if self._work is not None:
                self.planner.use(work.farm, {})
            anew = True
        else:
            anew = False
        self._work = work
        self._generation += 1
        for worker in self._workers:
            if worker.channel:
                self._assign(worker, anew)
            elif not worker.generation and not worker.deaths:
                self._bear(worker)
        await self._all_use(self._generation)

    def deliver(self, snapshot: Snapshot) -> None:
        self.planner.snapshot = snapshot
        written: dict[int, bytes] = {}
        for worker in self._workers:
            self._bring_up_to_date(worker, written)
        self.planner.deliver(snapshot)

    def override(self, overrides: Overrides) -> None:
        for worker in self._workers:
            worker.tell(("overrides", overrides))
        self.planner.override(overrides)

    async def explain(self, pool: Pool, owner: str) -> Mapping[str, Any]:
        name = full_owner(pool, owner)
        # Two, and the first who answers: one may hang
        asked = [worker for worker in self._workers if worker.channel and worker.generation][:2]
        self._requests += 1
        request = self._requests
        for worker in asked:
            worker.tell(("explain", (request, pool.name, owner)))
        try:
            await self._until(lambda: request in self._explained or not any(w.channel for w in asked), PROMPT)
            found = self._explained.pop(request)
        except KeyError:
            raise LbdnsError(f"{name}: no worker answers in {PROMPT:g} s; ask again") from None
        if found is None:
            raise LbdnsError(f"{name}: a reload is under way; ask again")
        return found

    @property
    def queries(self) -> int:
        return self.figures().queries

    def asked(self) -> Mapping[tuple[str, int, str, int], int]:
        return self.figures().asked

    def answers(self, pool: str) -> Counter[str]:
        figures = self.figures()
        if self._by_pool[0] is not figures:
            self._by_pool = (figures, figures.by_pool())
        return self._by_pool[1].get(pool, NO_ANSWERS)

    def shadow_figures(self) -> Figures:
        return self.figures()

    def figures(self) -> Figures:
        if self._sum is None:
            self._sum = total([self._past, self._lag.figures(), *(worker.figures for worker in self._workers)])
        return self._sum

    async def refresh(self) -> None:
        self._requests += 1
        request = self._requests
        asked = [worker for worker in self._workers if worker.channel]
        for worker in asked:
            worker.tell(("figures", request))
        await self._until(lambda: all(w.told >= request or not w.channel for w in asked), REFRESH)

    async def stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        self.planner.stop()
        self._sharing.stop()
        self._lag.stop()
        for worker in self._workers:
            if worker.rebirth:
                worker.rebirth.cancel()
            worker.tell(("end", None))
        if not await self._until(lambda: not any(worker.channel for worker in self._workers), FAREWELL):
            log.error("a worker doesn't end when it is told to; it is killed")
        for worker in self._workers:
            if worker.channel:
                worker.channel.close()
        if self._nursery:
            self._nursery.close()
        # It waits for its children: when it has ended, nobody holds a socket any more
        await asyncio.to_thread(_wait_for, self._pid, FAREWELL + 1.0)

    def _tell_elsewhere(self, number: int, answers: Mapping[tuple[str, str], int]) -> bool:
        """Tell a worker how many answers others have given; False if it hasn't read what it was told before."""
        worker = self._workers[number]
        if worker.channel is None or worker.channel.is_behind:
            return False
        worker.tell(("elsewhere", answers))
        return True

    # Births and deaths

    def _bear(self, worker: _Worker) -> None:
        """Have a process forked for ``worker``, and tell it all it has to know."""
        if self._stopping:
            return
        if self._nursery is None:
            self._on_loss("a worker has ended, and the process that would start another one has too")
            return
        ours, theirs = socket.socketpair()
        self._nursery.send(msgpack.packb(worker.number), (theirs,))
        theirs.close()
        worker.born, worker.pid = time.monotonic(), 0
        worker.known, worker.sockets = EMPTY.readings, frozenset()
        worker.channel = Channel(
            ours,
            lambda payload, _: self._hear(worker, payload),
            lambda: self._lose(worker),
            lambda: self._bring_up_to_date(worker, {}),
        )
        self._bring_up_to_date(worker, {})
        worker.tell(("overrides", self.planner.overrides))
        self._assign(worker, anew=True)
        worker.tell(("elsewhere", self._sharing.begin(worker.number)))

    def _assign(self, worker: _Worker, anew: bool) -> None:
        assert self._work is not None
        sockets: Numbered = self._work.sockets[worker.number]
        fresh = tuple(sockets.keys() - worker.sockets)
        farm, secrets = self._farm if anew else b"", self._work.secrets
        order = Assignment(self._generation, farm, secrets, len(self._workers), tuple(sockets), fresh)
        worker.tell(order, tuple(sockets[number] for number in fresh))
        worker.sockets = frozenset(sockets)

    def _bring_up_to_date(self, worker: _Worker, written: dict[int, bytes]) -> None:
        """Tell a worker what changed, unless it hasn't read what it was told before: then it will be told all at once.

        ``written``: by the identity of what a worker knows, what it has to be told; most know the same.
        """
        snapshot = self.planner.snapshot
        if worker.channel is None or worker.channel.is_behind or worker.known is snapshot.readings:
            return
        news = written.get(id(worker.known))
        if news is None:
            news = written[id(worker.known)] = write_news(worker.known, snapshot)
        worker.known = snapshot.readings
        worker.tell(("news", news))

    def _lose(self, worker: _Worker) -> None:
        """A worker's process has ended, or is about to."""
        worker.channel = None
        worker.generation = 0
        self._past += worker.figures.ended()
        worker.figures = NOTHING
        self._sharing.lose(worker.number)
        self._heard.set()
        if self._stopping:
            return
        worker.deaths = worker.deaths + 1 if time.monotonic() - worker.born < SOUND else 1
        self.restarts += 1
        pause = PAUSES[min(worker.deaths, len(PAUSES)) - 1]
        worker.rebirth = asyncio.get_running_loop().call_later(pause, self._bear, worker)

    def _lose_nursery(self) -> None:
        self._nursery = None
        if not self._stopping:
            self._say("the process that starts workers has ended: one that dies can't be replaced without a restart")

    def _hear_nursery(self, payload: bytes, _: list[int]) -> None:
        what, number, pid, status = msgpack.unpackb(payload)
        worker = self._workers[number]
        if what == "born":
            worker.pid = pid
            log.debug("worker %d is process %d", number, pid)
        elif what == "unborn":
            self._say(f"worker {number} can't be started: {os.strerror(status)}; it is tried again")
        elif not self._stopping:
            how = f"was ended by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"
            self._say(f"worker {number} (process {pid}) {how}; another one takes its place")

    def _say(self, what: str) -> None:
        self._events.tell("worker", what, level=logging.ERROR, logger=log.name)

    # What workers say

    def _hear(self, worker: _Worker, payload: bytes) -> None:
        try:
            what, *values = msgpack.unpackb(payload)
            self._take(worker, what, *values)
        except (ValueError, TypeError) as error:
            self._say(f"worker {worker.number} says what can't be understood ({error}); it is replaced")
            self._kill(worker)

    def _take(self, worker: _Worker, what: str, number: int, state: Any = None) -> None:
        if what == "using":
            worker.generation = number
        elif what == "figures":
            worker.figures = read_figures(state)
            worker.told = max(worker.told, number)
            self._sum = None
        elif what == "answers":
            self._sharing.take(worker.number, read_answers(state))
        elif what == "explained":
            self._take_explanation(number, state)
        self._heard.set()

    def _take_explanation(self, request: int, found: Any) -> None:
        """Keep it for who asked, if that can still be: who waited too long is gone."""
        if found is not None and not isinstance(found, dict):
            raise ValueError("no explanation")
        self._explained = {n: e for n, e in self._explained.items() if n > self._requests - KEPT_EXPLANATIONS}
        self._explained[request] = found

    async def _all_use(self, generation: int) -> None:
        """Wait until every worker works by this assignment or a later one; who doesn't in time is replaced.

        Raises LbdnsError when even replacements don't.
        """

        def late() -> list[_Worker]:
            return [worker for worker in self._workers if worker.generation < generation]

        for _ in range(2):
            if await self._until(lambda: not late() or self._stopping, PATIENCE):
                return
            for worker in late():
                self._say(f"worker {worker.number} hangs; it is replaced")
                self._kill(worker)
        numbers = ", ".join(str(worker.number) for worker in late())
        raise LbdnsError(f"workers: {numbers}: did not go over to the configuration; the others have. See the log")

    def _kill(self, worker: _Worker) -> None:
        if worker.channel and worker.pid:
            os.kill(worker.pid, signal.SIGKILL)
            worker.channel.close()
            self._lose(worker)

    async def _until(self, condition: Callable[[], bool], patience: float) -> bool:
        """Wait until ``condition`` holds, looking whenever a worker has said something; False if it doesn't in time."""
        try:
            async with asyncio.timeout(patience):
                while not condition():
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            return condition()
        return True


def _wait_for(pid: int, patience: float) -> None:
    """Wait until a child has ended."""
    end = time.monotonic() + patience
    try:
        while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < end:
            time.sleep(0.005)
    except ChildProcessError:
        pass


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
