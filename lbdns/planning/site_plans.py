"""The plans of pools with sites: for each order of the sites, merges the plans of the sites by their shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lbdns.answering.member_selection import PlanCursor
from lbdns.answering.pool_cursors import order_cursors
from lbdns.choosing.chooser import Chooser
from lbdns.choosing.site_load import SiteLoad
from lbdns.choosing.site_shares import SiteShares
from lbdns.policies.merged_plan import PlanPart, merged_plan
from lbdns.policies.plan import Plan, PoolView, Selections, rotation
from lbdns.policies.steps import Steps, finish

MOST: Final = 100.0  # answers for each selection of a plan that few clients use
#: s between two plans: at least, for each order, member and policy, and at most. 20 orders of 50 members take about
#: 20 ms, so planning takes about a tenth of a core
SHORTEST_PAUSE, PAUSE_PER_MEMBER, LONGEST_PAUSE = 0.05, 0.00015, 1.0


@dataclass(frozen=True, slots=True)
class SiteUse:
    """The load of one site. ``utilization`` is a part of its capacity, or None if it is unknown."""

    name: str
    hosts: int  # members that may be selected
    utilization: float | None


@dataclass(frozen=True, slots=True)
class OrderUse:
    """Which sites the clients with one order get. ``why`` is empty if they use their nearest site alone."""

    sites: tuple[str, ...]  # nearest first
    shares: tuple[float, ...]  # of the answers, by site, with probes
    why: str
    uses: frozenset[str]  # sites that get answers; the other shares are probes


@dataclass(slots=True)
class _Part:
    """The plan of one site for one policy and order, with the member that it selected last."""

    plan: Plan | None = None
    ended: Selections | None = None  # of the plan that ended last
    last: int | None = None
    share: float = 0.0
    credit: float = 0.0  # selections that the site is still owed


class SitePlans:
    """One pool's shares of the sites, and the plans of its cursors.

    ``members`` contains the indexes of the members by site. ``orders`` contains the orders in which clients use the
    sites. ``policies`` is the number of policies that plan.
    """

    def __init__(
        self, members: Mapping[str, Sequence[int]], orders: Sequence[Sequence[str]], policies: int = 1
    ) -> None:
        self.names, self._members = tuple(members), tuple(members.values())
        self._site_of = {member: number for number, members in enumerate(self._members) for member in members}
        self._size, self._orders = len(self._site_of), tuple(map(tuple, orders))
        numbers = {name: number for number, name in enumerate(self.names)}
        self._shares = SiteShares([[numbers[name] for name in order] for order in self._orders])
        self._loads: Sequence[SiteLoad] = [SiteLoad(tuple(members)) for members in self._members]
        self._parts: dict[tuple[str, int], list[_Part]] = {}  # by policy and order: a part for each site
        self._counted: Mapping[tuple[str, str], int] | None = None
        self._planned: Sequence[int] | None = None  # the candidates of the plans in force
        work = len(self._orders) * self._size * policies
        self._pause = min(LONGEST_PAUSE, SHORTEST_PAUSE + PAUSE_PER_MEMBER * work)
        self.due_at = -math.inf  # when the next plans are due, if the candidates remain the same

    def take_over(self, old: SitePlans) -> None:
        """Continue with the shares of ``old``, the same pool's plans before a reload of the configuration."""
        if (old.names, old._orders) == (self.names, self._orders):
            self._shares = old._shares

    def count(self, answers: Mapping[tuple[str, str], int]) -> None:
        """Record other processes' answers so far, keyed by order and site."""
        before, self._counted = self._counted, answers
        if before is None:
            return
        for number, order in enumerate(map(" ".join, self._orders)):
            counts = [answers.get((order, site), 0) - before.get((order, site), 0) for site in self.names]
            self._shares.count(number, [max(0, count) for count in counts])

    def is_due(self, chooser: Chooser, now: float) -> bool:
        """Return whether to make new plans now, although many orders and sites make this expensive."""
        return now >= self.due_at or chooser.liveness.candidates != self._planned

    def update(self, chooser: Chooser, now: float) -> None:
        """Update the shares of the sites. Call this method before plans are made, if ``is_due`` returns True."""
        self._planned = chooser.liveness.candidates
        self.due_at = now + self._pause
        self._loads = [chooser.site_load(members) for members in self._members]
        self._shares.update(self._loads, now)

    def end_and_plan(self, policy: str, cursor: PlanCursor, chooser: Chooser, now: float) -> None:
        """End the plans of the cursors for all orders, and set their next ones."""
        finish(self.end_and_plan_steps(policy, cursor, chooser, now))

    def end_and_plan_steps(self, policy: str, cursor: PlanCursor, chooser: Chooser, now: float) -> Steps[None]:
        """Do the same as ``end_and_plan``, in steps."""
        ended = [part.selections() for part in order_cursors(cursor)]
        for order, selections in enumerate(ended):
            self._end(policy, order, selections, chooser, now)
            yield
        candidates = [i for load in self._loads for i in load.members]
        view = yield from chooser.view_steps(policy, now)
        answers = [self._shares.answers_at(site) for site in range(len(self.names))]
        yield
        views = [
            chooser.site_view(view, load, n / math.fsum(answers) if any(answers) else 1.0)
            for load, n in zip(self._loads, answers, strict=True)
        ]
        probes = () if chooser.liveness.fail_open else chooser.guard_rails.probes(now)
        for order, part in enumerate(order_cursors(cursor)):
            yield
            plan = yield from self._plan(policy, order, chooser, views)
            if first := self._probes_of(order, probes):
                begin = plan.repeat_from + len(first)
                plan = replace(plan, order=(*first, *plan.order), repeat_from=begin, probes=len(first))
            part.set_plan(plan, candidates, ended[order])

    def _probes_of(self, order: int, probes: Sequence[int]) -> tuple[int, ...]:
        """Return which of the members to probe are probed with clients of the given order: those in the nearest site,
        and those in sites that are not the nearest one for any client."""
        nearest = [sites[0] for sites in self._shares.orders]
        return tuple(i for i in probes if (site := self._site_of[i]) == nearest[order] or site not in nearest)

    def _end(self, policy: str, order: int, selections: Selections, chooser: Chooser, now: float) -> None:
        """Count the selections of a plan that ends."""
        parts = self._parts.setdefault((policy, order), [_Part() for _ in self.names])
        counts = [sum(selections.counts[i] for i in members) for members in self._members]
        self._shares.count(order, counts)
        chooser.count_spilled(policy, selections.counts, now)
        for part, members, count in zip(parts, self._members, counts, strict=True):
            inside = frozenset(members)
            part.last = selections.last if selections.last in inside else part.last
            chosen = tuple(n if i in inside else 0 for i, n in enumerate(selections.counts))
            part.ended = Selections(part.plan or Plan(tuple(members)), chosen, part.last)
            owed = part.credit + part.share * sum(counts) - count
            part.credit = min(1.0, max(-1.0, owed)) if part.share else 0.0

    def _plan(self, policy: str, order: int, chooser: Chooser, views: Sequence[PoolView]) -> Steps[Plan]:
        """Return the next plan for the clients with the given order. ``views`` contains the policy's view of each
        site."""
        shares, decided, mine = self._shares.shares[order], self._shares.decided[order], self._shares.answers_of(order)
        found = []
        for site, (part, load) in enumerate(zip(self._parts[policy, order], self._loads, strict=True)):
            part.plan, part.share = None, shares[site] if load.members else 0.0
            if part.share <= 0:
                continue
            if decided[site] > 0:
                factor = min(MOST, self._shares.answers_at(site) / mine[site]) if mine[site] else 1.0
                view = replace(views[site], multiplier=views[site].multiplier * factor)
                part.plan = yield from chooser.plan_for_site(policy, view, part.ended, load)
            else:  # a probe of each member in turn
                part.plan = rotation(load.members, part.ended)
            found.append(PlanPart(part.plan, part.share, part.credit))
        return merged_plan(found, self._size) if found else Plan(chooser.liveness.candidates)

    @property
    def sites(self) -> tuple[SiteUse, ...]:
        """Return the load of the sites, in the default order."""
        return tuple(
            SiteUse(name, load.hosts, self._shares.utilization(site))
            for site, (name, load) in enumerate(zip(self.names, self._loads, strict=True))
        )

    @property
    def orders(self) -> tuple[OrderUse, ...]:
        """Return the shares of the sites for each order; the first order is that of clients in no network."""
        found = []
        for number, order in enumerate(self._shares.orders):
            shares, decided = self._shares.shares[number], self._shares.decided[number]
            uses = frozenset(self.names[site] for site in order if decided[site] > 0)
            found.append(
                OrderUse(self._orders[number], tuple(shares[site] for site in order), self._shares.why[number], uses)
            )
        return tuple(found)

    def site_of(self, member: int) -> str:
        """Return the site of the member with this index in the pool."""
        return self.names[self._site_of[member]]
