"""The guard rails of one pool decide which members are in slow start, and which are quarantined despite good reports.

Reports determine a member's state (``lbdns.model.liveness``). A guard reduces a usable member's share of the answers.
Sans-I/O.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.choosing.guard_rails.black_hole import BlackHoleWatch
from lbdns.choosing.guard_rails.slow_start import SlowStart
from lbdns.choosing.moving_averages import selected
from lbdns.model.liveness import Liveness
from lbdns.model.snapshot import Reading
from lbdns.policies.steps import Steps, finish, parts
from lbdns_shared.report import WEB_SERVER_FAILED

RAMP_STEP: Final = 1.0  # s between plans during slow start without reports: a tenth of its default length
ALL_AT_ONCE: Final = 3.0  # s: servers that seem to fail within this time probably share a failed switch or page


@dataclass(frozen=True, slots=True)
class Guard:
    """The reason that a usable member gets less than its full share of the answers."""

    why: str = ""  # the evidence against it; empty if none
    since: float = 0.0  # monotonic seconds: when the evidence began
    quarantined: bool = False  # not selected; if False despite ``why``, the pool cannot do without it
    ramp: float = 1.0  # share of its weight during slow start

    def text(self, now: float) -> str:
        """Return a description of the guard, or an empty string if the member gets its full share."""
        if self.why:
            what = "quarantined:" if self.quarantined else "needed although"
            return f"{what} {self.why}, for {max(0.0, now - self.since):.0f} s"
        return f"ramp {self.ramp:.0%}" if self.ramp < 1 else ""


NO_GUARD: Final = Guard()

#: (suspended members, least bad first; other members; minimum of members to keep) -> suspended members to spare
Spare = Callable[[Sequence[int], Sequence[int], float], Sequence[int]]


class GuardRails:
    """The black-hole watches, alarms and slow starts of a pool's members, keyed by member index.

    ``sites`` contains the members of each site, if the pool has sites.
    """

    def __init__(
        self, members: int, min_usable: float, ramp_up: float, black_hole: bool, sites: Sequence[Sequence[int]] = ()
    ) -> None:
        self._sites = sites
        self.caught: tuple[int, ...] = ()  # members with enough evidence for a quarantine
        self.quarantined: tuple[int, ...] = ()  # caught members that the pool can do without
        self._needed: tuple[int, ...] = ()  # members that give an alarm, but that the pool cannot do without
        self._alarms: dict[int, tuple[str, float]] = {}  # member -> its alarm and when it began
        self._alarmed_for: dict[int, float] = {}  # member -> seconds that its alarm lasted, until its newest report
        self._min_usable, self._black_hole = min_usable, black_hole
        self._watches = [BlackHoleWatch() for _ in range(members)]
        self._suspected: set[int] = set()  # members with a symptom, whether they are usable or not
        self._no_guards = (NO_GUARD,) * members
        self.slow_start = SlowStart(members, ramp_up)

    def take_over(self, old: GuardRails, places: Sequence[int | None]) -> None:
        """Continue from the state in ``old``.

        ``places`` lists each member's index in ``old``, or None for a new member.
        """
        self.slow_start.take_over(old.slow_start, places)
        if old._black_hole and self._black_hole:
            for i, place in enumerate(places):
                if place is not None:
                    self._watches[i] = old._watches[place]
            self._suspected = {i for i, watch in enumerate(self._watches) if watch.symptom}
            self.caught = tuple(i for i, place in enumerate(places) if place in old.caught)
            self.quarantined = tuple(i for i, place in enumerate(places) if place in old.quarantined)
        self._alarms = {i: old._alarms[place] for i, place in enumerate(places) if place in old._alarms}

    def observe(self, member: int, reading: Reading) -> None:
        """Record a new reading of ``member``."""
        self.slow_start.reported(member, reading.interval)
        if reading.alarm:
            _, since = self._alarms.get(member, ("", reading.received))
            self._alarms[member] = (reading.alarm, since)
        elif member in self._alarms:
            alarm, since = self._alarms.pop(member)
            if not alarm.startswith(WEB_SERVER_FAILED):  # a web server that has started anew is cold
                self._alarmed_for[member] = reading.received - since
        if not self._black_hole:
            return
        watch = self._watches[member]
        if reading.gone and watch.symptom is None:
            watch = self._watches[member] = (
                BlackHoleWatch()
            )  # its agent may return without server-status, which is no failure
        watch.observe(reading)
        if watch.symptom:
            self._suspected.add(member)
        else:
            self._suspected.discard(member)

    def count_selections(self, counts: Sequence[int], now: float, servers: int) -> None:
        """Record how often this server has selected each member since the last call; ``servers`` is the number of DNS
        servers."""
        for i, count in selected(counts[: len(self._watches)]):
            watch = self._watches[i]
            watch.selections += count * servers
            if watch.caught:
                watch.probed(now)

    @property
    def needs_counts(self) -> bool:
        """Return whether the guard of any member currently depends on how often this member is selected."""
        watches = (self._watches[i] for i in self._suspected)
        return any(watch.symptom is not None and watch.symptom.probed for watch in watches)

    def candidates(
        self,
        liveness: Liveness,
        can_spare: Spare,
        forced_up: Collection[int] = (),
        needed_despite_alarm: Sequence[int] = (),
    ) -> tuple[int, ...]:
        """Return the members that may be selected: all candidates in ``liveness`` except quarantined members.

        While the pool fails open, no member is quarantined. Members that an operator has forced up are never
        quarantined. The members in ``needed_despite_alarm`` are candidates although they are in alarm.
        """
        self._needed = tuple(needed_despite_alarm)
        live = tuple(sorted((*liveness.candidates, *self._needed))) if self._needed else liveness.candidates
        suspected = sorted(self._suspected.intersection(live).difference(forced_up)) if self._suspected else ()
        self.caught = tuple(i for i in suspected if self._watches[i].caught)
        if not self.caught or liveness.fail_open:
            self.quarantined = ()
            return live
        others = [i for i in live if i not in self.caught]
        if self._is_doubtful():
            least_bad_first = sorted(self.caught, key=self._badness)
            minimum = self._min_usable * self._not_drained(liveness, live)
            self.quarantined = tuple(sorted(can_spare(least_bad_first, others, minimum)))
        else:
            self.quarantined = self.caught if others else ()
        return tuple(i for i in live if i not in self.quarantined)

    def _not_drained(self, liveness: Liveness, live: Sequence[int]) -> int:
        """Return the number of members that are not drained. Sites without any member in ``live`` do not count: the
        other sites serve their clients, and cannot replace their members."""
        if not self._sites:
            return sum(state != "drained" for state in liveness.states)
        serving = frozenset(live)
        living = [site for site in self._sites if not serving.isdisjoint(site)]
        return sum(liveness.states[i] != "drained" for site in living for i in site)

    def _is_doubtful(self) -> bool:
        """Return whether a failure of monitoring may have caused a member's symptoms, in which case its web server
        may be healthy."""
        watches = [self._watches[i] for i in self.caught]
        since = [watch.since for watch in watches]
        return any(watch.caught and not watch.caught.certain for watch in watches) or (
            len(since) > 1 and max(since) - min(since) <= ALL_AT_ONCE
        )

    def _badness(self, member: int) -> tuple[bool, float]:
        watch = self._watches[member]
        return watch.caught is not None and watch.caught.certain, -watch.since

    def update_slow_start(self, candidates: tuple[int, ...], now: float) -> None:
        """Begin slow start for each member that has become a candidate."""
        self.slow_start.observe(candidates, now, self._alarmed_for)
        self._alarmed_for.clear()

    def probes(self, now: float) -> list[int]:
        """Return the members with confirmed symptoms whose next probe is due; each must now be selected once.

        The list includes members that the pool cannot do without. Such members have the lowest score, so some policies
        might never select them without probes.
        """
        return [i for i in self.caught if now >= self._watches[i].probe_at]

    def next_change(self, now: float) -> float:
        """Return the monotonic time after ``now`` at which plans expire if no report arrives, or inf if never."""
        if not self.caught and not self.slow_start.running:
            return math.inf
        probes = (at for i in self.caught if (at := self._watches[i].probe_at) > now)
        return min(min(probes, default=math.inf), now + RAMP_STEP if self.slow_start.running else math.inf)

    def guards(self, now: float, ramps: Mapping[int, float]) -> tuple[Guard, ...]:
        """Return each member's guard; ``ramps`` contains the weight fraction of each member in slow start.

        If no member has a guard, every call returns the same object; callers can therefore compare results with ``is``.
        """
        return finish(self.guard_steps(now, ramps))

    def guard_steps(self, now: float, ramps: Mapping[int, float]) -> Steps[tuple[Guard, ...]]:
        """Return the same guards as ``guards``, in steps."""
        if not self.caught and not self._needed and not self.slow_start.running:
            return self._no_guards
        found: list[Guard] = []
        for part in parts(len(self._watches)):
            found += [self._guard(i, ramps.get(i, 1.0)) for i in range(part.start, min(part.stop, len(self._watches)))]
            yield
        return tuple(found)

    def _guard(self, member: int, ramp: float) -> Guard:
        watch = self._watches[member]
        if member in self._needed and member in self._alarms:
            text, since = self._alarms[member]
            return Guard(f"it is in alarm ({text})", since, ramp=ramp)
        if member not in self.caught or watch.caught is None:
            return Guard(ramp=ramp) if ramp < 1 else NO_GUARD
        return Guard(watch.caught.text, watch.since, member in self.quarantined, ramp)
