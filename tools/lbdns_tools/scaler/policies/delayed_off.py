"""Delays the removal of servers, because starting a server again costs time and money. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lbdns.text.counts import counted
from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.policies.round_history import covers, highest_rate
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation

#: Seconds before the end of a paid period in which a server may be removed. Later, it would drain into the next period
EARLIEST: Final = 300.0
LATEST: Final = 90.0


def nearest_full_period_first(view: FarmView, period: float) -> tuple[str, ...]:
    """Return the names of the servers in service. The server whose current billing period ends first comes first.

    ``period`` is the length of a billing period in seconds.
    """
    servers = [server for server in view.servers if server.state is ServerState.IN_SERVICE]
    servers.sort(key=lambda server: period - (view.now - server.billed_since) % period)
    return tuple(server.name for server in servers)


def expiring(view: FarmView, period: float) -> tuple[str, ...]:
    """Return the names of the servers in service whose current billing period ends soon, but not too soon to drain
    them. The server whose period ends first comes first.
    """
    billed = {server.name: server.billed_since for server in view.servers}
    return tuple(
        name
        for name in nearest_full_period_first(view, period)
        if LATEST <= period - (view.now - billed[name]) % period <= EARLIEST
    )


def delayed_off(
    view: FarmView, present: int, needed: Callable[[float], int], delay: float, margin: float, period: float
) -> Recommendation | None:
    """Return a recommendation to remove servers, or None if it is too early.

    ``needed`` returns the number of servers for a rate. The highest rate of the last ``delay`` seconds is increased by
    the fraction ``margin``. If fewer than ``present`` servers suffice for the increased rate, servers are removed. If
    the rate then stays close to one value (within ``margin / (2 + margin)`` of it), these servers are not needed again.
    If servers are paid for in periods of ``period`` seconds, a server is removed only when its period is about
    to end, because it is paid for until then. If ``period`` is 0, servers are paid for by the second.
    """
    rate = highest_rate(view, delay)
    enough = needed(rate * (1 + margin))
    if enough >= present or not covers(view, delay):
        return None
    need = f"The highest rate in the last {delay:.0f} s, {rate:.1f} requests/s, needs {counted(enough, 'server')}"
    if not period:
        return Recommendation(enough, f"{need}.")
    names = expiring(view, period)[: present - enough]
    if not names or view.on_the_way:  # a removal would cancel a server on its way, whose period has just been paid
        return None
    return Recommendation(
        present - len(names), f"{need}; the paid time of {counted(len(names), 'server')} ends soon.", names
    )
