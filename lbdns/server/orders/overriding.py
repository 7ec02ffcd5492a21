"""Orders about members: taken at the control socket, in force at once, kept over restarts, over when their time is.

What is in force is what the planner goes by; here it is changed, told as events, and written to the state folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import pwd
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lbdns.duration import format_duration
from lbdns.errors import LbdnsError, UnknownNameError
from lbdns.events import Events
from lbdns.farm import Farm, Member, Pool
from lbdns.overrides import Override, Overrides
from lbdns.server.answerer import Answerer
from lbdns.server.orders import override_file
from lbdns.server.orders.control import Command, Order
from lbdns.server.orders.meant import Meant, cant_spare, ended, find, find_forgotten, in_pools, listed
from lbdns.server.orders.wish import COMMANDS, Wish, read_wish

MAX_OVERRIDES: Final = 10_000  # more than there can be use for; each costs time with every report
LOOK: Final = 30.0  # s between looks at the clock: it may be set, and what could not be written may work now
SOONEST: Final = 0.01  # s until the next look: wall clock and event loop's clock are never quite as one
PATIENCE: Final = 5.0  # s that an order waits for the disk
_UID_BITS: Final = 0xFFFFFFFF

_PUT: Final = {"drain": "drained", "up": "forced up", "down": "forced down", "weight": "given weight {factor:g}"}
_ENDED: Final = {"drain": "no longer drained", "up": "no longer forced up", "down": "no longer forced down",
                 "weight": "no longer of weight {factor:g}"}  # fmt: skip


class Overriding:
    """Gives the answerer its overrides."""

    def __init__(self, farm: Farm, answerer: Answerer, events: Events, clock: Callable[[], float] = time.time) -> None:
        """``clock`` tells Unix seconds."""
        self.commands: Mapping[str, Command] = {**dict.fromkeys(COMMANDS, self._order), "overrides": self._list}
        self.handing_over = asyncio.Lock()  # who holds it tells a successor what is in force: it must not change
        self._farm, self._where = farm, _places(farm)
        self._answerer, self._events, self._clock = answerer, events, clock
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._begun = asyncio.Event()  # or over
        self._over = False
        self._kept: tuple[Path, Overrides] | None = None  # what is in which file
        self._writing: asyncio.Task[None] | None = None
        self._trouble = ""  # why the newest can't be kept

    @property
    def overrides(self) -> Overrides:
        return self._answerer.planner.overrides

    @property
    def _path(self) -> Path:
        return self._farm.config.server.state_dir / override_file.FILE_NAME

    async def restore(self) -> None:
        """Have in force what was before the last stop. Before anything is answered."""
        path = self._path
        found, trouble = await asyncio.to_thread(override_file.read, path)
        if trouble:
            self._tell(trouble, level=logging.WARNING)
        else:
            self._kept = path, found
        if found.items:
            self._tell(f"in force from before: {listed((f'{o.member} {o.text()}' for o in found.items), '; ')}")
            self._answerer.override(found)
            self._end_what_is_over()

    def inherit(self, overrides: Overrides) -> None:
        """Go on with those of a server whose place is taken. Its file is ours from ``begin`` on."""
        self._answerer.override(overrides)

    def begin(self) -> None:
        """From now on orders are taken, and nobody else writes the file."""
        self._begun.set()
        self._look()

    def use(self, farm: Farm) -> None:
        """Another configuration: what is in force stays, and is kept in its folder."""
        self._farm, self._where = farm, _places(farm)
        self._look()

    async def stop(self) -> None:
        """Write what isn't yet. Can be called twice."""
        if self._over:
            return
        self._over = True
        if self._timer:
            self._timer.cancel()
        if self._begun.is_set():
            await self._keep()
            if self._writing:
                self._writing.cancel()
        self._begun.set()

    # Orders

    async def _order(self, order: Order) -> Mapping[str, Any]:
        wish = read_wish(order.words)
        by = await asyncio.to_thread(user_name, order.uid)
        await self._begun.wait()
        async with self.handing_over:
            if self._over:
                raise LbdnsError("this server is ending, or a new process has taken its place; give the order again")
            if wish.kind is None:
                meant, gone = self._end(wish, by)
            else:
                meant, gone = self._put(wish, by), ()
        # Workers tell their figures after what they were told before: then the next query is answered by this order
        await self._answerer.refresh()
        trouble = await self._keep()
        concerned = [o for o in self.overrides.items if o.member in meant.full_names]
        return {
            "members": list(meant.full_names),
            "in_force": [self.document(o) for o in concerned],
            "ended": [o.document() for o in gone],
            "kept": not trouble,
            "notes": [*self._notes(concerned), *([f"{trouble}; it holds until the server stops"] if trouble else [])],
        }

    async def _list(self, order: Order) -> Mapping[str, Any]:
        notes = [f"{self._trouble}; it holds until the server stops"] if self._trouble else []
        return {"in_force": [self.document(o) for o in self.overrides.items], "kept": not notes, "notes": notes}

    def document(self, override: Override) -> dict[str, Any]:
        """As answers tell it: with where it counts, and what it comes to in words."""
        pools = [pool.name for pool, _ in self._pools(override)]
        return {**override.document(), "pools": pools, "text": override.text()}

    def _put(self, wish: Wish, by: str) -> Meant:
        assert wish.kind, "it puts something"
        meant = find(self._farm, wish)
        now = self._clock()
        until = now + wish.for_s
        new = [
            Override(wish.kind, name, wish.pool, wish.factor, by, wish.reason, now, until) for name in meant.full_names
        ]
        after = self.overrides
        if not wish.pool:  # it is said of every pool, so nothing else is said of single ones
            after = after.without(o for o in after.items if o.slot == wish.slot and o.member in meant.full_names)
        for override in new:
            after = after.put(override)
        if len(after.items) > MAX_OVERRIDES:
            raise LbdnsError(f"there are {len(self.overrides.items)} overrides; end some of them first")
        why = self._missed(meant, after) if wish.kind in ("drain", "down") else ""
        if why and not wish.force:
            raise LbdnsError(f"{why}. --force does it all the same")
        span = f" for {format_duration(wish.for_s)}" if wish.for_s < math.inf else ""
        reason = f": {wish.reason}" if wish.reason else ""
        what = _PUT[wish.kind].format(factor=wish.factor)
        level = logging.WARNING if why else logging.INFO
        for override in new:
            self._tell_of(override, f"{what} by {by}{span}{reason}{f' (although {why})' if why else ''}", level)
        self._go_by(after)
        return meant

    def _missed(self, meant: Meant, after: Overrides) -> str:
        """Why a pool could not do without them."""
        planner = self._answerer.planner
        return cant_spare(meant, self.overrides, after, self._farm, planner.snapshot, planner.guards, self._loop.time())

    def _end(self, wish: Wish, by: str) -> tuple[Meant, Sequence[Override]]:
        try:
            meant = find(self._farm, wish)
        except UnknownNameError:
            forgotten = find_forgotten(self.overrides, wish)
            if forgotten is None:
                raise
            meant = forgotten
        gone = ended(meant, wish, self.overrides)
        for override in gone:
            reason = f": {wish.reason}" if wish.reason else ""
            self._tell_of(override, f"{_ended(override)}, by {by}{reason}{_ordered(override)}")
        self._go_by(self.overrides.without(gone))
        return meant, gone

    def _notes(self, concerned: Iterable[Override]) -> list[str]:
        """What somebody who gave the last order may not expect."""
        kinds: dict[str, set[str]] = {}
        for override in concerned:
            kinds.setdefault(override.member, set()).add(override.slot)
        return [
            f"{member} is drained, which counts before being forced up or down"
            for member, slots in kinds.items()
            if {"drain", "force"} <= slots
        ]

    # Time

    def _look(self) -> None:
        """End what is over, write what isn't written, and look again in time."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._over or not self._begun.is_set():
            return
        self._end_what_is_over()
        unwritten = self._kept != (self._path, self.overrides)
        if unwritten and self._writing is None:
            self._write()
        until = self.overrides.next_end
        if until < math.inf or unwritten:
            wait = min(max(until - self._clock(), SOONEST), LOOK)
            self._timer = self._loop.call_later(wait, self._look)

    def _end_what_is_over(self) -> None:
        gone = self.overrides.ended(self._clock())
        for override in gone:
            span = format_duration(override.until - override.since)
            self._tell_of(override, f"{_ended(override)}: the {span} are over{_ordered(override)}")
        if gone:
            self._answerer.override(self.overrides.without(gone))

    def _go_by(self, overrides: Overrides) -> None:
        self._answerer.override(overrides)
        self._look()

    # The file

    async def _keep(self) -> str:
        """Wait until all is written, but not for long. Why it isn't; empty if it is."""
        deadline = self._loop.time() + PATIENCE
        if self._writing is None and self._kept != (self._path, self.overrides):
            self._write()
        while self._writing and (left := deadline - self._loop.time()) > 0:
            await asyncio.wait({self._writing}, timeout=left)
        if self._writing:
            return f"{self._path}: the disk is slow: it is not written yet"
        return self._trouble

    def _write(self) -> None:
        self._writing = self._loop.create_task(self._write_all())

    async def _write_all(self) -> None:
        """Until what is in force is what is written, or can't be."""
        try:
            while self._kept != (wanted := (self._path, self.overrides)):
                await asyncio.to_thread(override_file.write, *wanted)
                before, self._kept = self._kept, wanted
                if before and before[0] != wanted[0]:
                    with contextlib.suppress(OSError):  # or it would be believed, should its folder be used again
                        before[0].unlink()
            if self._trouble:
                self._tell(f"{self._path}: overrides are kept over restarts again")
            self._trouble = ""
        except OSError as error:
            self._fail(f"{self._path}: can't be written: {error.strerror}")
        finally:
            self._writing = None

    def _fail(self, what: str) -> None:
        if what != self._trouble:
            self._tell(f"{what}; overrides hold until the server stops", level=logging.WARNING)
        self._trouble = what

    # Words

    def _pools(self, override: Override) -> list[tuple[Pool, Member]]:
        """Where it counts."""
        return [place for place in self._where.get(override.member, ()) if override.pool in ("", place[0].name)]

    def _tell_of(self, override: Override, what: str, level: int = logging.INFO) -> None:
        """``what`` has become of an override, with whom it concerns."""
        places = self._pools(override)
        if len(places) == 1:
            pool, member = places[0]
            self._tell(f"pool {pool.name}: {member.name} {what}", level=level, pool=pool.name, member=member.name)
        else:
            where = f"{in_pools(pool.name for pool, _ in places)}: " if places else ""
            self._tell(f"{where}{override.member} {what}", level=level, member=override.member)

    def _tell(self, text: str, *, level: int = logging.INFO, pool: str = "", member: str = "") -> None:
        self._events.tell("override", text, level=level, pool=pool, member=member, logger="lbdns.orders")


def _places(farm: Farm) -> dict[str, list[tuple[Pool, Member]]]:
    """Every pool that a machine is in, by its full name."""
    found: dict[str, list[tuple[Pool, Member]]] = {}
    for pool in farm.pools:
        for member in pool.members:
            found.setdefault(member.full_name, []).append((pool, member))
    return found


def _ended(override: Override) -> str:
    return _ENDED[override.kind].format(factor=override.factor)


def _ordered(override: Override) -> str:
    reason = f": {override.reason}" if override.reason else ""
    return f" ({override.by} had ordered it{reason})" if override.by else ""


def user_name(uid: int) -> str:
    """Who that is on this machine. Takes as long as the name service: not for the event loop."""
    uid &= _UID_BITS  # the kernel's is unsigned
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return f"uid {uid}"
