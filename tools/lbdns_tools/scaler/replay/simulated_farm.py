"""The farm of a replay: servers that boot, serve, drain and are paid for, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.scaling_policy import ServerView
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings


@dataclass(slots=True)
class SimulatedServer:
    """A server that was requested at ``created`` and joins at ``ready``. It is billed until ``end``."""

    name: str
    created: float
    ready: float
    end: float | None = None


class SimulatedFarm:
    """Starts and removes servers as a policy decides, and adds up the billed server hours."""

    def __init__(self, settings: ReplaySettings, begin: float, servers: int) -> None:
        self._settings = settings
        self._count_from = begin + settings.warm_up
        self._created = 0
        self._servers: list[SimulatedServer] = []
        self._view: tuple[ServerView, ...] | None = None
        self._next_change = begin
        self.paid_seconds = 0.0
        self.starts = 0
        for _ in range(servers):
            self._start(begin, begin)
        self.starts = 0

    def in_service(self, now: float) -> int:
        """Return the number of servers that serve requests at ``now``."""
        return sum(server.ready <= now and server.end is None for server in self._servers)

    def next_ready(self, now: float) -> float | None:
        """Return the time after ``now`` at which the next server joins, or None if none is booting."""
        return min((s.ready for s in self._servers if s.ready > now and s.end is None), default=None)

    def view(self, now: float) -> tuple[ServerView, ...]:
        """Return the servers as a policy sees them, the oldest first. Servers that have ended are forgotten."""
        if self._view is not None and now < self._next_change:
            return self._view
        for server in self._servers:
            if server.end is not None and server.end <= now:
                self._pay(server, server.end)
        self._servers = [s for s in self._servers if s.end is None or s.end > now]
        self._view = tuple(self._server_view(server, now) for server in self._servers)
        changes = [s.ready if s.end is None else s.end for s in self._servers]
        self._next_change = min((change for change in changes if change > now), default=float("inf"))
        return self._view

    def scale(self, now: float, servers: int, remove: Sequence[str]) -> None:
        """Start or remove servers so that ``servers`` are in service or booting.

        Servers that are not yet in service are removed first, then those in ``remove``, then the newest, as in the
        running scaler.
        """
        active = [server for server in self._servers if server.end is None]
        for _ in range(servers - len(active)):
            self._start(now, now + self._settings.boot_time)
        if servers < len(active):
            order = {name: at for at, name in enumerate(remove)}
            newest_first = reversed(active)
            first = sorted(newest_first, key=lambda s: (s.ready <= now, order.get(s.name, len(order))))
            for server in first[: len(active) - servers]:
                serving = server.ready <= now
                server.end = now + self._settings.drain_time if serving else now
            self._view = None

    def finish(self, now: float) -> None:
        """Add the billed time of the servers that exist at the end of the trace."""
        for server in self._servers:
            self._pay(server, now if server.end is None else min(now, server.end))
        self._servers = []

    def _start(self, now: float, ready: float) -> None:
        self._created += 1
        self.starts += now >= self._count_from
        self._servers.append(SimulatedServer(f"s{self._created}", now, ready))
        self._view = None

    def _server_view(self, server: SimulatedServer, now: float) -> ServerView:
        if server.end is not None:
            state, since = ServerState.DRAINING, server.end - self._settings.drain_time
        elif server.ready <= now:
            state, since = ServerState.IN_SERVICE, server.ready
        else:
            state, since = ServerState.STARTING, server.created
        return ServerView(server.name, state, since, server.created)

    def _pay(self, server: SimulatedServer, end: float) -> None:
        """Add a server's billed time to the total. Each billing period that begins after the warm-up counts in full."""
        period, begin = self._settings.billing_period, server.created
        if not period:
            self.paid_seconds += max(0.0, end - max(begin, self._count_from))
            return
        started = max(1, ceil((end - begin) / period - 1e-9))
        earlier = min(started, max(0, ceil((self._count_from - begin) / period - 1e-9)))
        self.paid_seconds += (started - earlier) * period
