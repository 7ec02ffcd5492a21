"""Site shares: decides which share of the answers each site of a pool gets, for each order in which clients use the
sites. Sans-I/O.

Clients use the nearest site alone while its headroom is within ``VARIANCE`` of the headroom that the other sites have.
Otherwise, the next site in the client's order joins it, and the shares follow the number of hosts times the headroom.
Further sites join in the same way. A few answers are probes of the sites that clients do not use.

Headroom is 1 minus the smoothed utilisation. The utilisation is corrected for the answers that have changed since it
was measured, so that a site that has just got more clients does not look idle until they arrive. Shares change
gradually, except that the clients of a site that fails go elsewhere at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from lbdns.choosing.moving_averages import ExponentialMean, FadingCounts
from lbdns.choosing.observed_pool import AVERAGE, REQUESTS
from lbdns.choosing.site_exchange import without_exchange, without_meeting
from lbdns.choosing.site_load import SiteLoad

VARIANCE: Final = 0.1  # of headroom: a site that has this much less than the others gets help
CALM: Final = 0.08  # of headroom: the difference that remains once a site gets help
FULL: Final = 0.9  # utilisation: a site gets no more clients of other sites
PROBE: Final = 0.01  # share of the answers that name sites which a client does not use
RISE, FALL = 0.2, 0.05  # per second: how fast clients leave their nearest site, and return to it
REST: Final = 0.05  # a share that is nearer to its target rests, since chance moves targets as far
STEP: Final = 0.02  # the same if all sites are full
#: s: about how long an answer brings load to a site, since clients and resolvers keep answers. With 4 s or 24 s, the
#: shares swing behind resolvers that keep answers for 5 to 30 s (lbdns-sim: 'full-site' with caches:50). Without such
#: resolvers, all three are good.
EFFECT: Final = 12.0
PATIENCE: Final = 5.0  # s to wait for a site's first report, because other agents may only have reported sooner
SPILLS: Final = 0.05  # share that must leave the nearest site before it counts as spilling
SWEEPS: Final = 8  # over all orders, since the clients of each order load the same sites

#: Why clients do not use their nearest site alone
HAS_LESS, NO_MEMBER, RETURNS = "has less headroom than other sites", "has no usable member", "takes its clients back"

Shares = list[float]  # by site


class SiteShares:
    """The shares of the answers that each site of one pool gets. Times are in monotonic seconds.

    ``orders`` contains, for each order, the numbers of the sites, nearest first. Each order contains all sites.
    """

    def __init__(self, orders: Sequence[Sequence[int]]) -> None:
        self.orders = tuple(map(tuple, orders))
        self.sites = len(self.orders[0])
        self.decided: list[Shares] = [self._all_to(order[0]) for order in self.orders]  # without probes
        self.shares = list(self.decided)  # with probes
        self.why = [""] * len(self.orders)  # why clients do not use their nearest site alone; empty: they do
        self._answers = FadingCounts(len(self.orders) * self.sites, EFFECT)
        self._new_answers = [0] * len(self._answers.values)  # since the last update
        self._smoothed = [ExponentialMean(REQUESTS) for _ in range(self.sites)]
        self._updated = 0.0
        self._began: float | None = None  # the first update

    def count(self, order: int, answers: Sequence[int]) -> None:
        """Record the answers to clients with the given order since the last call, by site."""
        for place, count in enumerate(answers, order * self.sites):
            self._new_answers[place] += count

    def update(self, loads: Sequence[SiteLoad], now: float) -> None:
        """Update the shares, given the load of the sites, in the order of their numbers."""
        seconds = 0.0 if self._began is None else min(AVERAGE, max(0.0, now - self._updated))
        self._began = now if self._began is None else self._began
        if any(load.is_unknown for load in loads) and now - self._began >= PATIENCE:
            loads = [SiteLoad(()) if load.is_unknown and self._knows_others(loads) else load for load in loads]
        self._answers.add(self._new_answers, now)
        self._new_answers = [0] * len(self._new_answers)
        demand = _Demand(self, loads, seconds)
        self._updated = now
        if not any(load.hosts for load in loads):
            return
        targets = without_meeting(demand.equilibrium(), self.decided, demand.nearest)
        decided = [
            _approach(before, target, nearest, loads, seconds, demand.rest, demand.is_urgent(before, nearest))
            for before, target, nearest in zip(self.decided, targets, demand.nearest, strict=True)
        ]
        self.decided = without_exchange(decided, demand.nearest, demand.demand)
        self.shares = [demand.with_probes(shares) for shares in self.decided]
        self.why = [self._reason(number, loads) for number in range(len(self.orders))]

    @staticmethod
    def _knows_others(loads: Sequence[SiteLoad]) -> bool:
        return any(load.hosts and not load.is_unknown for load in loads)

    def answers_at(self, site: int) -> float:
        """Return the recent answers that named members of ``site`` as of the last update, in a unit that all sites
        share."""
        return math.fsum(self._answers.values[site :: self.sites])

    def answers_of(self, order: int) -> Sequence[float]:
        """Return the recent answers to clients with the given order, by site, in the same unit."""
        return self._answers.values[order * self.sites : (order + 1) * self.sites]

    def smoothed(self, site: int, load: SiteLoad, seconds: float) -> float | None:
        """Return the smoothed utilisation of a site, or None if it is unknown. Request rates are already averages."""
        used, mean = load.utilization, self._smoothed[site]
        if used is None or load.measured:
            mean.value = used
        else:
            mean.add(used, seconds)
        return mean.value

    def utilization(self, site: int) -> float | None:
        """Return the smoothed utilisation of a site as of the last update, or None if it is unknown."""
        return self._smoothed[site].value

    def _all_to(self, site: int) -> Shares:
        return [float(site == other) for other in range(self.sites)]

    def _reason(self, number: int, loads: Sequence[SiteLoad]) -> str:
        nearest, before = self.orders[number][0], self.why[number]
        if not loads[nearest].hosts:
            return NO_MEMBER
        spilled = 1 - self.decided[number][nearest]
        if spilled < 1e-9:
            return ""
        if before in (NO_MEMBER, RETURNS):
            return RETURNS
        return HAS_LESS if spilled >= SPILLS else before


class _Demand:
    """The demand of the clients of each order, and the utilisation of the sites that given shares would lead to."""

    def __init__(self, state: SiteShares, loads: Sequence[SiteLoad], seconds: float) -> None:
        self._orders, self._loads = state.orders, loads
        #: By order: the nearest site that can serve
        self.nearest = [next((site for site in order if loads[site].hosts), order[0]) for order in state.orders]
        self._shares = [list(shares) for shares in state.decided]
        used = [state.smoothed(site, load, seconds) for site, load in enumerate(loads)]
        self._rates = [None if u is None else u * load.capacity for u, load in zip(used, loads, strict=True)]
        answers = [state.answers_at(site) for site in range(state.sites)]
        carried = math.fsum(rate or 0.0 for rate in self._rates)
        total = math.fsum(n for n, rate in zip(answers, self._rates, strict=True) if rate is not None)
        per_answer = carried / total if total > 0 else 0.0
        self.demand = [per_answer * math.fsum(state.answers_of(order)) for order in range(len(state.orders))]
        # The load of the sites without the clients whose shares are now decided
        self._others = [
            None if rate is None else rate - per_answer * n for rate, n in zip(self._rates, answers, strict=True)
        ]
        self._used = self._utilization(self._clients(self._shares))  # before the shares change

    def equilibrium(self) -> list[Shares]:
        """Return the shares for which the rule holds at the utilisation that they lead to. At least one site must have
        a member that may be selected."""
        targets = [list(shares) for shares in self._shares]
        clients = self._clients(targets)
        for _ in range(SWEEPS):
            before = list(targets)
            for number, order in enumerate(self._orders):
                spills = self._shares[number][order[0]] < 1 - SPILLS
                others = self._moved(clients, number, targets[number], -1)
                found = self._target(number, clients, others, CALM if spills else VARIANCE)
                # Without damping, two sites could exchange all clients in each sweep
                targets[number] = _damped(targets[number], found)
                clients = self._moved(others, number, targets[number], 1)
            if targets == before:
                break
        targets = without_exchange(targets, self.nearest, self.demand)
        self._limit(targets)
        return targets

    def _clients(self, targets: Sequence[Shares]) -> list[float]:
        """Return the demand of the clients that each site has with the given shares."""
        clients = [0.0] * len(self._loads)
        for number, shares in enumerate(targets):
            clients = self._moved(clients, number, shares, 1)
        return clients

    def _moved(self, clients: list[float], number: int, shares: Shares, sign: int) -> list[float]:
        """Return the clients of each site after the clients of an order have come (``sign`` 1) or gone (-1)."""
        demand = sign * self.demand[number]
        return [n + demand * share for n, share in zip(clients, shares, strict=True)] if demand else clients

    def _target(self, number: int, clients: list[float], others: list[float], threshold: float) -> Shares:
        """Return the shares of the order with this ``number``. ``others`` contains the clients without those of this
        order."""
        sites = [site for site in self._orders[number] if self._loads[site].hosts]
        used = self._utilization(clients)
        near = self._weighted(sites[:1], used)
        for count in range(1, len(sites)):
            wider = self._weighted(sites[: count + 1], used)
            clients_before, clients_after = (self._moved(others, number, shares, 1) for shares in (near, wider))
            before, after = (self._gap(clients, sites, count) for clients in (clients_before, clients_after))
            if before <= threshold:
                return near
            # Utilisation is linear in the shares
            enough = (before - threshold) / (before - after) if after < threshold else math.inf
            most = self._level(clients_before, clients_after, sites, count)
            near = _mixed(near, wider, min(1.0, enough, most))
            if enough <= most:
                return near
        return near

    def _level(self, before: Sequence[float], after: Sequence[float], sites: Sequence[int], count: int) -> float:
        """Return which part of the step from ``before`` to ``after`` makes the site that joins the first ``count`` of
        the ``sites`` as full as these. Otherwise, they would overload it, and its own clients would be sent to them."""
        gaps = []
        for used in (self._utilization(before), self._utilization(after)):
            here, joining = self._mean(sites[:count], used, None), used[sites[count]]
            if here is None or joining is None:
                return 1.0
            gaps.append(joining - here)
        return 0.0 if gaps[0] >= 0 else min(1.0, gaps[0] / (gaps[0] - gaps[1])) if gaps[1] > 0 else 1.0

    def _gap(self, clients: Sequence[float], sites: Sequence[int], count: int) -> float:
        """Return how much less headroom the first ``count`` of the ``sites`` have than the others."""
        used = self._utilization(clients)
        here = self._mean(sites[:count], used, None)
        if here is None:
            return 0.0
        # Sites of unknown utilisation count only for those that can carry no more
        others = self._mean(sites[count:], used, 0.0 if here >= FULL else None)
        return 0.0 if others is None else here - others

    def _mean(self, sites: Sequence[int], used: Sequence[float | None], unknown: float | None) -> float | None:
        known = [(u, self._loads[s].hosts) for s in sites if (u := unknown if used[s] is None else used[s]) is not None]
        hosts = sum(hosts for _, hosts in known)
        return math.fsum(u * n for u, n in known) / hosts if hosts else None

    def _utilization(self, clients: Sequence[float]) -> list[float | None]:
        """Return the utilisation of each site with the given clients, or None where it is unknown."""
        return [
            None if others is None or load.capacity <= 0 else (others + n) / load.capacity
            for load, others, n in zip(self._loads, self._others, clients, strict=True)
        ]

    def _weighted(self, sites: Sequence[int], used: Sequence[float | None]) -> Shares:
        """Return shares in proportion to hosts times headroom, or to capacity if all of the sites are overloaded."""
        loads = self._loads
        if all((u := used[site]) is not None and u >= FULL for site in sites):
            weights = {site: loads[site].capacity for site in sites}
        else:
            weights = {site: loads[site].hosts * min(1.0, max(0.0, 1 - (used[site] or 0.0))) for site in sites}
        total = math.fsum(weights.values())
        if total <= 0:
            weights, total = dict.fromkeys(sites, 1.0), float(len(sites))
        return [weights.get(site, 0.0) / total for site in range(len(loads))]

    def _limit(self, targets: list[Shares]) -> None:
        """Reduce the shares that other sites get from ``targets`` to what they can carry; the nearest site that can
        serve gets the rest."""
        used = self._utilization(self._clients(targets))
        for site, load in enumerate(self._loads):
            if (u := used[site]) is None or u <= FULL:
                continue
            guests = [n for n, nearest in enumerate(self.nearest) if nearest != site and targets[n][site] > 0]
            spilled = math.fsum(self.demand[n] * targets[n][site] for n in guests)
            if spilled <= 0 or self._all_full(used):
                continue
            kept = max(0.0, 1 - (u - FULL) * load.capacity / spilled)
            for n in guests:
                targets[n][self.nearest[n]] += targets[n][site] * (1 - kept)
                targets[n][site] *= kept

    @property
    def rest(self) -> float:
        """How far shares may be from their targets without changing."""
        return STEP if self._all_full(self._used) else REST

    def is_urgent(self, shares: Shares, nearest: int) -> bool:
        """Return whether clients with the given shares use a full site, although their nearest site is not full."""
        full = [u is not None and u >= FULL for u in self._used]
        return not full[nearest] and any(share > 0 and is_full for share, is_full in zip(shares, full, strict=True))

    def _all_full(self, used: Sequence[float | None]) -> bool:
        return all(u is not None and u >= FULL for u, load in zip(used, self._loads, strict=True) if load.hosts)

    def with_probes(self, shares: Shares) -> Shares:
        """Return ``shares`` with a small share for each site that may be probed, taken from the largest share."""
        most = max(range(len(shares)), key=shares.__getitem__)
        probed = [
            site
            for site, load in enumerate(self._loads)
            if site != most and load.hosts and not load.is_unknown and (self._used[site] or 0.0) < FULL
        ]
        found = list(shares)
        for site in probed:
            found[site] = max(found[site], PROBE / len(probed))
        found[most] -= math.fsum(found) - 1
        return found


def _damped(before: Shares, found: Shares) -> Shares:
    """Return the middle between two targets, or ``found`` if they hardly differ."""
    is_near = max(abs(a - b) for a, b in zip(before, found, strict=True)) < REST
    return found if is_near else _mixed(before, found, 0.5)


def _mixed(near: Shares, wider: Shares, part: float) -> Shares:
    return [(1 - part) * a + part * b for a, b in zip(near, wider, strict=True)]


def _approach(
    shares: Shares, target: Shares, nearest: int, loads: Sequence[SiteLoad], seconds: float, rest: float, hurry: bool
) -> Shares:
    """Return shares that lie between ``shares`` and ``target``, as far as they may change in ``seconds``.

    ``nearest`` is the nearest site that can serve. Changes smaller than ``rest`` are not made, unless all clients
    return. If ``hurry`` is true, clients return as fast as they leave.
    """
    lost = math.fsum(share for share, load in zip(shares, loads, strict=True) if not load.hosts)
    now = [share + lost * goal if load.hosts else 0.0 for share, goal, load in zip(shares, target, loads, strict=True)]
    gap = math.fsum(abs(a - b) for a, b in zip(now, target, strict=True)) / 2
    returns = target[nearest] > now[nearest]
    if gap < rest and not (returns and target[nearest] > 1 - 1e-9):
        return now
    return _mixed(now, target, min(1.0, (FALL if returns and not hurry else RISE) * seconds / gap)) if gap else now
