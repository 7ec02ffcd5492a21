"""The member checker: runs due checks, a limited number at a time, and stores the changed readings."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from lbdns.model.farm import Farm
from lbdns.model.snapshot import Reading
from lbdns_collector.checks.check_schedule import CheckSchedule, MemberCheck, checks_of, without_failures
from lbdns_collector.checks.icmp_prober import IcmpProber
from lbdns_collector.checks.probe_result import ProbeResult
from lbdns_collector.checks.probes import probe_http, probe_tcp

log = logging.getLogger("lbdns.collector")

MAX_RUNNING: Final = 128  # checks at a time: a thousand dead members are checked in 2.4 s, with few descriptors
BATCH: Final = 16  # checks begun per wake-up, about 2 ms of work, so that other tasks in this event loop can run
LOOKS: Final = 256  # members looked at per wake-up, about a millisecond of work
PAUSE: Final = 0.01  # s between two wake-ups: short beside every deadline, and ten thousand members need few wake-ups
LOG_INTERVAL: Final = 60.0  # s between two log lines about checks that could not be made
RESULTS: Final[Mapping[bool | None, str]] = {True: "passed", False: "failed", None: "not_made"}


class Readings(Protocol):
    """A table of the members' newest readings, keyed by full member name."""

    def reading(self, member: str) -> Reading | None: ...

    def replace(self, member: str, reading: Reading) -> None:
        """Store a reading that a check has changed."""

    def members(self) -> Iterable[str]: ...


class MemberChecker:
    """A checker that runs the checks of all members of a farm.

    ``on_change`` is called after a check has changed a reading in ``readings``.
    """

    def __init__(self, readings: Readings, on_change: Callable[[], None]) -> None:
        self._readings, self._on_change = readings, on_change
        self._schedule = CheckSchedule()
        self._icmp = IcmpProber()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_on = False
        self._logged_at = float("-inf")
        #: Number of checks so far by pool and result: "passed", "failed" or "not_made"
        self.counts: Counter[tuple[str, str]] = Counter()

    def open(self, farm: Farm) -> None:
        """Open the sockets for the ICMP checks of ``farm``, which requires root privileges. Raises ConfigError."""
        targets = [each for each in checks_of(farm) if each.check.target and each.check.target.kind == "icmp"]
        self._icmp.open(address for each in targets for address in each.addresses)

    def start(self, farm: Farm) -> None:
        """Start checking the members of ``farm``."""
        self._icmp.start()
        self._is_on = True
        self.use(farm)

    def use(self, farm: Farm) -> None:
        """Replace the current checks with the checks of ``farm``, and delete the failures of removed checks."""
        checks = checks_of(farm)
        self._schedule.stale_after = farm.config.collector.stale_after
        self._schedule.use(checks, asyncio.get_running_loop().time())
        self.counts.update({(check.pool, result): 0 for check in checks for result in RESULTS.values()})
        known = {check.key: check.check for check in checks}
        for member in list(self._readings.members()):
            reading = self._readings.reading(member)
            changed = reading and without_failures(reading, lambda pool, member=member: (pool, member) in known)  # type: ignore[misc]
            if changed:
                self._readings.replace(member, changed)
        self._wake()

    def stop(self) -> None:
        """Stop checking, and close the sockets. If a check is still in progress, its result is discarded."""
        self.pause()
        self._icmp.close()

    def pause(self) -> None:
        """Stop checking members until ``resume`` is called."""
        self._is_on, self._schedule = False, CheckSchedule()
        if self._timer:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks:
            task.cancel()

    def resume(self, farm: Farm) -> None:
        self._is_on = True
        self.use(farm)

    def hurry(self, members: Iterable[str]) -> None:
        """Check ``members`` (full names) now, because their agents report that their web servers have failed."""
        self._schedule.hurry(members, asyncio.get_running_loop().time())
        self._wake()

    def _wake(self) -> None:
        """Start the checks that are due, and schedule the next call of this method."""
        if not self._is_on:
            return
        loop = asyncio.get_running_loop()
        now, begun, looks = loop.time(), 0, 0
        schedule = self._schedule
        while schedule.next_due <= now and begun < BATCH and looks < LOOKS and len(self._tasks) < MAX_RUNNING:
            looks += 1
            check = schedule.take(self._readings.reading, now)
            if check:
                begun += 1
                task = loop.create_task(self._run(check))
                self._tasks.add(task)
                task.add_done_callback(self._done)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        # While all checks are running, the end of a check is the next wake-up
        if schedule.next_due < float("inf") and len(self._tasks) < MAX_RUNNING:
            self._timer = loop.call_at(max(schedule.next_due, now + PAUSE), self._wake)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a check failed unexpectedly", exc_info=error)
        # The next check of this member may be due long before everything that was due when the timer was set. A timer
        # that is at most a pause away stays as it is: otherwise each finished check would postpone it
        if self._timer is None or self._schedule.next_due < self._timer.when() - PAUSE:
            self._wake()

    async def _run(self, check: MemberCheck) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            result = await self._probe(check)
        except Exception as error:  # a mistake in one check must not end the others
            result = ProbeResult(None, f"unexpected error: {error!r}")
        self.counts[check.pool, RESULTS[result.passed]] += 1
        if result.passed is None:
            self._log_not_made(check, result.reason, loop.time())
        reading = self._schedule.finish(check, result, began, self._readings.reading, loop.time())
        if reading is not None:
            self._readings.replace(check.member, reading)
            self._on_change()

    async def _probe(self, check: MemberCheck) -> ProbeResult:
        """Probe all addresses of a member at once. The check passes as soon as the probe of one address passes."""
        if len(check.addresses) == 1:
            return await self._probe_address(check, check.addresses[0])
        probes = [asyncio.ensure_future(self._probe_address(check, address)) for address in check.addresses]
        results = []
        try:
            for probe in asyncio.as_completed(probes):
                result = await probe
                if result.passed:
                    return result
                results.append(result)
        finally:
            for each in probes:
                each.cancel()
        # An address that cannot be probed, such as an IPv6 address if this host has only IPv4, proves nothing
        return min(results, key=lambda result: result.passed is None)

    async def _probe_address(self, check: MemberCheck, address: str) -> ProbeResult:
        config = check.check
        target = config.target
        assert target is not None
        if target.kind == "icmp":
            return await self._icmp.probe(address, config)
        if target.kind == "tcp":
            return await probe_tcp(address, target.port, config)
        return await probe_http(address, target, target.host or check.member, config)

    def _log_not_made(self, check: MemberCheck, reason: str, now: float) -> None:
        if now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            log.warning(
                "pool %s: %s could not be checked with %s: %s", check.pool, check.member, check.check.target, reason
            )
