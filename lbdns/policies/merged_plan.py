"""Merges the plans of a pool's sites into one plan, in which each site has a given share of the selections. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, cycle

from lbdns.policies.blended_plan import LEAST_ROUND, plan_ranking, plan_shares
from lbdns.policies.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A plan that selects the members of one site, by their indexes in the pool."""

    plan: Plan  # without probes
    share: float  # of the merged plan's selections, above 0
    credit: float = 0.0  # selections, from -1 to 1, that earlier plans still owe this part


def merged_plan(parts: Sequence[PlanPart], members: int) -> Plan:
    """Return a plan that takes its selections from all ``parts``, by their shares.

    ``members`` is the number of the pool's members. The largest part determines how many selections are for light
    traffic. If there is only one part, its plan is returned.
    """
    main, *others = sorted(parts, key=lambda part: -part.share)
    if not others:
        return main.plan
    total = sum(part.share for part in parts)
    first, again = main.plan.order[: main.plan.repeat_from], main.plan.order[main.plan.repeat_from :]
    again = tuple(again) * -(-LEAST_ROUND // len(again))
    sources = [_selections(part.plan) for part in others]
    due = [part.credit for part in others]
    halves: list[list[int]] = []
    for selections in (first, again):
        found: list[int] = []
        for selection in selections:
            for n, part in enumerate(others):
                due[n] += part.share / main.share
                while due[n] >= 0.5:
                    found.append(next(sources[n]))
                    due[n] -= 1
            found.append(selection)
        halves.append(found)
    weights = [0.0] * members
    for part in parts:
        for member, weight in enumerate(plan_shares(part.plan)):
            weights[member] += weight * part.share / total
    ranking = dict.fromkeys(chain.from_iterable(plan_ranking(part.plan) for part in (main, *others)))
    return Plan((*halves[0], *halves[1]), len(halves[0]), tuple(weights), light=main.plan.light, ranking=tuple(ranking))


def _selections(plan: Plan) -> Iterator[int]:
    return chain(plan.order, cycle(plan.order[plan.repeat_from :]))
