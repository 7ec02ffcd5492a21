"""The guard rails of one pool: who is set aside although its reports look well, and who is ramped up. Pure.

What reports say is the state (``liveness``); what is held against a usable member, and what part of its share it
gets, is its guard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.liveness import Liveness
from lbdns.policies.guard_rails.black_hole import Watch
from lbdns.policies.guard_rails.ramp import Ramps
from lbdns.snapshot import Reading

RAMP_STEP: Final = 1.0  # s until a ramp is looked at again when no report comes: a tenth of one by default
ALL_AT_ONCE: Final = 3.0  # s: servers die one after another; what fails at once is a switch, or a page they share


@dataclass(frozen=True, slots=True)
class Guard:
    """What keeps a usable member from its whole share."""

    why: str = ""  # what speaks against it; empty if nothing
    since: float = 0.0  # and since when, monotonic seconds
    quarantined: bool = False  # it is set aside; if not, the pool can't do without it
    ramp: float = 1.0

    def text(self, now: float) -> str:
        """In words; empty if there is nothing to say."""
        if self.why:
            what = "quarantined" if self.quarantined else "needed, but"
            return f"{what}: {self.why}, since {max(0.0, now - self.since):.0f} s"
        return f"ramp {self.ramp:.0%}" if self.ramp < 1 else ""


NO_GUARD: Final = Guard()

#: Which of some (least bad first) can be spared, beside others, of whom at least so many have to go on
Spare = Callable[[Sequence[int], Sequence[int], float], Sequence[int]]


class Guards:
    """Watches and ramps of a pool's members, by index."""

    def __init__(self, members: int, min_usable: float, ramp_up: float, black_hole: bool) -> None:
        self.caught: tuple[int, ...] = ()  # what speaks against them is enough to set them aside
        self.aside: tuple[int, ...] = ()  # those of them that are
        self.needed: tuple[int, ...] = ()  # who refuses by an alarm, and the pool can't do without
        self._alarms: dict[int, tuple[str, float]] = {}  # by member: the alarm it gives, and since when
        self._alarmed_for: dict[int, float] = {}  # by member: for how long, in seconds, until its newest report
        self._min_usable, self._black_hole = min_usable, black_hole
        self._watches = [Watch() for _ in range(members)]
        self._suspected: set[int] = set()  # against whom their watch holds something, whether they are live or not
        self._nothing = (NO_GUARD,) * members
        self._ramps = Ramps(members, ramp_up)

    def take_over(self, old: Guards, places: Sequence[int | None]) -> None:
        """Go on where ``old`` was; ``places`` are the members' indexes there, None for those it doesn't have."""
        self._ramps.take_over(old._ramps, places)
        if old._black_hole and self._black_hole:
            for i, place in enumerate(places):
                if place is not None:
                    self._watches[i] = old._watches[place]
            self._suspected = {i for i, watch in enumerate(self._watches) if watch.finding}
            self.caught = tuple(i for i, place in enumerate(places) if place in old.caught)
            self.aside = tuple(i for i, place in enumerate(places) if place in old.aside)
        self._alarms = {i: old._alarms[place] for i, place in enumerate(places) if place in old._alarms}

    def observe(self, member: int, reading: Reading) -> None:
        """A new report of ``member``."""
        if reading.alarm:
            _, since = self._alarms.get(member, ("", reading.received))
            self._alarms[member] = (reading.alarm, since)
        elif member in self._alarms:
            _, since = self._alarms.pop(member)
            self._alarmed_for[member] = reading.received - since
        if not self._black_hole:
            return
        watch = self._watches[member]
        if reading.gone and watch.finding is None:
            watch = self._watches[member] = Watch()  # its agent may come back without server-status: that's no failure
        watch.observe(reading)
        if watch.finding:
            self._suspected.add(member)
        else:
            self._suspected.discard(member)

    def hand_out(self, counts: Sequence[int], now: float, servers: int) -> None:
        """How often each member was handed out since the last time; by one of so many ``servers``."""
        for watch, count in zip(self._watches, counts, strict=False):
            if count:
                watch.handed += count * servers
                if watch.caught:
                    watch.probe(now)

    @property
    def needs_counts(self) -> bool:
        """Whether it matters just now how often members are handed out."""
        watches = (self._watches[i] for i in self._suspected)
        return any(watch.finding is not None and watch.finding.probed for watch in watches)

    def candidates(
        self, liveness: Liveness, can_spare: Spare, up: Collection[int] = (), needed: Sequence[int] = ()
    ) -> tuple[int, ...]:
        """Who of the live is handed out. While the pool fails open that is everybody; ``up`` are members that a person
        has forced up, whatever speaks against them, ``needed`` those that give an alarm and are handed out all the
        same."""
        self.needed = tuple(needed)
        live = tuple(sorted((*liveness.candidates, *self.needed))) if self.needed else liveness.candidates
        suspected = sorted(self._suspected.intersection(live).difference(up)) if self._suspected else ()
        self.caught = tuple(i for i in suspected if self._watches[i].caught)
        if not self.caught or liveness.fail_open:
            self.aside = ()
            return live
        others = [i for i in live if i not in self.caught]
        not_drained = sum(state != "drained" for state in liveness.states)
        floor = self._min_usable * not_drained if self._is_doubtful() else 1.0
        self.aside = tuple(sorted(can_spare(sorted(self.caught, key=self._badness), others, floor)))
        return tuple(i for i in live if i not in self.aside)

    def _is_doubtful(self) -> bool:
        """Whether it may be the looking that failed, for some at least."""
        watches = [self._watches[i] for i in self.caught]
        since = [watch.since for watch in watches]
        return any(watch.caught and not watch.caught.certain for watch in watches) or (
            len(since) > 1 and max(since) - min(since) <= ALL_AT_ONCE
        )

    def _badness(self, member: int) -> tuple[bool, float]:
        """To sort by: what is certain and what has lasted long is worst."""
        watch = self._watches[member]
        return watch.caught is not None and watch.caught.certain, -watch.since

    def restart(self, now: float, interval: float) -> None:
        """The pool no longer fails open; see ``Ramps.restart``."""
        self._ramps.restart(now, interval)

    def ramp(self, candidates: tuple[int, ...], now: float) -> None:
        """These are handed out from now on."""
        self._ramps.observe(candidates, now, self._alarmed_for)
        self._alarmed_for.clear()

    def shares(self, now: float) -> Mapping[int, float]:
        """What part of its share a member gets, above 0; the whole if it isn't named."""
        return self._ramps.shares(now)

    def probes(self, now: float) -> list[int]:
        """Whom something speaks against and who is to be handed out once, now: also whom the pool can't do without, for
        with the lowest of all scores nobody may come by it otherwise."""
        return [i for i in self.caught if now >= self._watches[i].probe_at]

    def next_change(self, now: float) -> float:
        """When plans have to be made anew after ``now`` if no report comes, monotonic seconds; inf if never."""
        if not self.caught and not self._ramps.running:
            return math.inf
        probes = (at for i in self.caught if (at := self._watches[i].probe_at) > now)
        return min(min(probes, default=math.inf), now + RAMP_STEP if self._ramps.running else math.inf)

    def guards(self, now: float, ramps: Mapping[int, float]) -> tuple[Guard, ...]:
        """Of each member; ``ramps``: what part of its share it gets, the whole if it isn't named."""
        if not self.caught and not self.needed and not self._ramps.running:
            return self._nothing
        return tuple(self._guard(i, ramps.get(i, 1.0)) for i in range(len(self._watches)))

    def _guard(self, member: int, ramp: float) -> Guard:
        watch = self._watches[member]
        if member in self.needed and member in self._alarms:
            text, since = self._alarms[member]
            return Guard(f"it gives an alarm ({text})", since, ramp=ramp)
        if member not in self.caught or watch.caught is None:
            return Guard(ramp=ramp) if ramp < 1 else NO_GUARD
        return Guard(watch.caught.text, watch.since, member in self.aside, ramp)
