"""The fleet: observes a farm's servers, decides each server's next step, and performs one action at a time on each
server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.scaler.front_ends.front_end import FrontEnd, FrontEndServer
from lbdns_tools.scaler.life_cycle.next_step import Action, LifeTimes, next_step
from lbdns_tools.scaler.life_cycle.scaling_plan import Change, natural_key
from lbdns_tools.scaler.life_cycle.server_actions import ServerActions
from lbdns_tools.scaler.life_cycle.server_file import KeptServers, read_servers, write_servers
from lbdns_tools.scaler.life_cycle.server_record import ServerFacts, ServerRecord, adopt
from lbdns_tools.scaler.life_cycle.server_state import ON_THE_WAY, ServerState
from lbdns_tools.scaler.life_cycle.web_probe import BenchmarkSettings
from lbdns_tools.scaler.providers.provider import Machine, Provider, QuotaError
from lbdns_tools.scaler.trouble import log_trouble

log = logging.getLogger("lbdns.scaler")

S = ServerState
#: Actions that can be abandoned at any moment, because they change nothing
_HARMLESS: Final = frozenset({Action.PROBE, Action.BENCHMARK})
LEAST_JUMP: Final = 1.0  # seconds: the clock was set if it gained or lost more between two looks


class Fleet:
    """All servers of the farm. Call ``look`` about once a second, and ``apply`` when the policy requires changes."""

    def __init__(
        self,
        provider: Provider,
        front_end: FrontEnd,
        actions: ServerActions,
        times: LifeTimes,
        benchmark: BenchmarkSettings | None,
        file: Path,
        clock: Callable[[], float] = time.time,
        steady_clock: Callable[[], float] = time.monotonic,
        dry_run: bool = False,
    ) -> None:
        """``file`` stores the server records; ``clock`` supplies their times (Unix seconds). ``steady_clock`` shows
        whether ``clock`` has been set. With ``dry_run``, the fleet only observes. Raises LbdnsError."""
        self._provider, self._front_end, self._actions = provider, front_end, actions
        self._times, self._benchmark, self._file = times, benchmark, file
        self._clock, self._steady_clock, self._dry_run = clock, steady_clock, dry_run
        kept, now = read_servers(file), clock()
        self._clock_offset = now - steady_clock()
        self.records: dict[str, ServerRecord] = {name: each.moved(0.0, now) for name, each in kept.records.items()}
        self.highest = kept.highest
        self.facts: Mapping[str, ServerFacts] = {}
        self.quota: int | None = None
        self.failures: dict[str, int] = {}  # number of failures, by what failed
        self.unobserved = ""  # why the newest look failed; empty if it succeeded
        self._unsaved = ""  # why the records could not be written; empty if they are in the file
        self._refusals: dict[str, str] = {}  # the failure of each server that was logged last
        self._running: dict[str, tuple[Action, asyncio.Task[None]]] = {}
        self._saved = kept

    @property
    def trouble(self) -> str:
        """The reason why the scaler is not working as usual, or an empty string if it is."""
        return self.unobserved or self._unsaved

    @property
    def held(self) -> frozenset[str]:
        """The names of the servers that are in service or draining, and that an operator keeps away from clients."""
        return frozenset(
            name for name, record in self.records.items()
            if record.state in (S.IN_SERVICE, S.DRAINING) and (front := self.facts_of(name).front) and front.held
        )  # fmt: skip

    def facts_of(self, name: str) -> ServerFacts:
        """Return what the last call of ``look`` found out about a server."""
        return self.facts.get(name, ServerFacts())

    async def look(self) -> None:
        """Observe all servers and the front end, then let every server take its next step.

        If either cannot be observed, nothing changes: the scaler never acts on incomplete facts.
        """
        try:
            machines = {machine.name: machine for machine in await self._provider.machines()}
            fronts = await self._front_end.servers()
            self.quota = await self._provider.quota()
        except Exception as error:
            self.unobserved = log_trouble("cannot observe the servers", error, self.unobserved)
            self._count("look")
            return
        if self.unobserved:
            log.info("the servers can be observed again")
        self.unobserved = ""
        self._follow_clock()
        self._observe(machines, fronts)
        if not self._dry_run:
            self._take_steps()

    def _follow_clock(self) -> None:
        """If the clock has been set, move the times of all records, so that no stage ends too early or too late."""
        now = self._clock()
        offset = now - self._steady_clock()
        jump, self._clock_offset = offset - self._clock_offset, offset
        if abs(jump) > LEAST_JUMP:
            log.warning("the clock was set %s by %.0f s", "forward" if jump > 0 else "back", abs(jump))
            self.records = {name: record.moved(jump, now) for name, record in self.records.items()}

    def _observe(self, machines: Mapping[str, Machine], fronts: Mapping[str, FrontEndServer]) -> None:
        names = {*machines, *self.records}
        self.facts = {name: ServerFacts(machines.get(name), fronts.get(name)) for name in names}
        now = self._clock()
        for name in sorted(machines.keys() - self.records.keys(), key=natural_key):
            record = adopt(name, self.facts[name], now)
            log.info("%s: found at the provider; %s", name, record.state.value)
            self.records[name] = record
            self.highest = max(self.highest, natural_key(name)[1])

    def _take_steps(self) -> None:
        now, due = self._clock(), []
        for name in sorted(self.records, key=natural_key):
            if name not in self._running:
                step = next_step(self.records[name], self.facts_of(name), now, self._times)
                self._replace(name, step.record)
                if step.action and step.record:
                    due.append((step.action, step.record))
        is_saved = self._save()
        for action, record in due:
            if is_saved or action is not Action.CREATE:  # no server exists without a record
                self._begin(action, record)

    def apply(self, changes: Iterable[Change]) -> None:
        """Carry out the changes of a scaling plan. A server with an action in progress is left for the next round."""
        for change in changes:
            name = change.after.name
            action, task = self._running.get(name, (None, None))
            if task and action not in _HARMLESS:
                continue  # the next round decides anew
            if task:
                del self._running[name]
                task.cancel()
            self.highest = max(self.highest, natural_key(name)[1])
            self._replace(name, change.after)
        self._take_steps()

    def _begin(self, action: Action, record: ServerRecord) -> None:
        now = self._clock()
        drain_asked = now if action is Action.DRAIN else record.drain_asked
        self.records[record.name] = started = replace(record, asked=now, drain_asked=drain_asked)
        task = asyncio.get_running_loop().create_task(self._act(action, started), name=f"{action.value} {record.name}")
        self._running[record.name] = action, task

    async def _act(self, action: Action, record: ServerRecord) -> None:
        name = record.name
        try:
            measured = await self._actions.perform(action, record, self.facts_of(name))
        except LbdnsError as error:
            self._failed(action, name, error)
        except Exception:
            self._count(action.value)
            log.exception("%s: %s failed unexpectedly", name, action.value)
        else:
            self._succeeded(action, name, measured)
        del self._running[name]  # not if cancelled: `apply` has done so

    def _failed(self, action: Action, name: str, error: LbdnsError) -> None:
        is_hold = action is Action.DRAIN and self.records[name].state in ON_THE_WAY
        if action is Action.PROBE or is_hold:  # expected until the web server has started, or for an only server
            log.debug("%s: %s", name, error)
            return
        self._count(action.value)
        refusal = f"{action.value} failed: {error}"
        log.log(logging.DEBUG if self._refusals.get(name) == refusal else logging.WARNING, "%s: %s", name, refusal)
        self._refusals[name] = refusal
        now = self._clock()
        if isinstance(error, QuotaError) and action is Action.CREATE:
            self._replace(name, None)  # nothing exists; the next round decides anew
        elif action is Action.BENCHMARK:
            self._replace(name, self.records[name].to(S.FAILED, now, f"the benchmark failed: {error}"))

    def _succeeded(self, action: Action, name: str, measured: float) -> None:
        record, now = self.records[name], self._clock()
        self._refusals.pop(name, None)
        match action:
            case Action.REMOVE:
                self._replace(name, None)
                return
            case Action.CREATE:
                record = record.to(S.STARTING, now, "requested", requested=True)
            case Action.START | Action.STOP | Action.DELETE:
                record = replace(record, requested=True)
            case Action.PROBE if self._benchmark:
                record = record.to(S.BENCHMARKING, now, "the web server responds")
            case Action.PROBE:
                record = record.to(S.JOINING, now, "the web server responds")
            case Action.BENCHMARK:
                record = self._judged(record, measured, now)
        self._replace(name, record)

    def _judged(self, record: ServerRecord, measured: float, now: float) -> ServerRecord:
        least = self._benchmark.at_least if self._benchmark else 0.0
        result = f"the benchmark measured {measured:.1f} requests/s"
        if measured < least:
            self._count("too slow")
            return record.to(S.FAILED, now, f"too slow: {result}, but at least {least:g} are required")
        return record.to(S.JOINING, now, result, capacity=measured)

    def _replace(self, name: str, record: ServerRecord | None) -> None:
        before = self.records.get(name)
        if record is None:
            self.records.pop(name, None)
            self._refusals.pop(name, None)
            log.info("%s: gone", name)
            return
        self.records[name] = record
        if before is None or before.state is not record.state:
            level = logging.WARNING if record.state is S.FAILED else logging.INFO
            log.log(level, "%s: %s (%s)", name, record.state.value, record.reason)

    def _count(self, what: str) -> None:
        self.failures[what] = self.failures.get(what, 0) + 1

    def _save(self) -> bool:
        """Write the records if they have changed. Return False if they could not be written, otherwise True."""
        kept = KeptServers(dict(self.records), self.highest)
        if kept == self._saved or self._dry_run:
            return True
        try:
            write_servers(self._file, kept)
        except LbdnsError as error:
            if not self._unsaved:
                log.error("%s; no server is created until the file can be written", error)
            self._unsaved = str(error)
            return False
        self._saved, self._unsaved = kept, ""
        return True

    async def close(self) -> None:
        """Wait until the requests in progress are complete. No further server is changed."""
        for action, task in self._running.values():
            if action in _HARMLESS:
                task.cancel()
        await asyncio.gather(*(task for _, task in self._running.values()), return_exceptions=True)
        self._save()
