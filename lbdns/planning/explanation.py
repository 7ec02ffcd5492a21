"""Explains, in one JSON document, which member will be selected next for a name, and why.

``lbdns explain``, the HTTP interface, the live page and the TXT answers present this document.
docs/reference/explain.md describes every key. All functions are pure: callers pass the time as an argument.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, cycle, islice
from typing import Any, Final

from lbdns.answering.member_lists import ListCursor
from lbdns.answering.member_selection import PlanCursor
from lbdns.choosing.chooser import Chooser
from lbdns.choosing.guard_rails.guard_rails import Guard
from lbdns.choosing.observed_pool import AVERAGE
from lbdns.choosing.spillover import BackupUse
from lbdns.model.farm import Farm, Pool
from lbdns.model.liveness import Liveness
from lbdns.model.overrides import Override, Overrides
from lbdns.model.snapshot import Reading
from lbdns.planning.answer_summary import NextSelection, summarize
from lbdns.planning.site_explanation import elsewhere, site_documents
from lbdns.planning.site_plans import SitePlans
from lbdns.planning.state_reason import reason
from lbdns.policies import POLICIES
from lbdns.policies.plan import Plan, PoolView
from lbdns.policies.weighted import carried_credits
from lbdns.text.suggestions import nearest

PREVIEW: Final = 10  # number of a plan's next selections in the document
UPCOMING: Final = 5  # the same in the status document
LONGEST_HINT: Final = 300  # characters in an error message: there may be thousands of names
ROUNDING: Final = 1e-6  # points: a sum of floats may be just below a whole number

#: Maps the metrics of a report to the points that each metric adds to the score
ScoreParts = Callable[[Mapping[str, float]], Mapping[str, float]]


def find_owner(farm: Farm, name: str) -> tuple[Pool, str] | None:
    """Return two values: the pool that serves ``name`` (case-insensitive), and the owner name as written in the
    configuration.

    A name with a final dot is absolute. A name without a final dot may also be relative to a zone, provided that only
    one pool matches. Returns None if no pool matches.
    """
    absolute = name.endswith(".")
    wanted = name[:-1].lower() if absolute and name.strip(".") else name.lower()
    found = []
    for pool in farm.pools:
        for owner in pool.config.names:
            if full_owner(pool, owner) == wanted:
                return pool, owner
            if owner == wanted and not absolute:
                found.append((pool, owner))
    return found[0] if len(found) == 1 else None


def full_owner(pool: Pool, owner: str) -> str:
    """Return the full name of ``owner`` (one of the names of ``pool``) without the final dot; the root is "."."""
    zone = pool.zone.name
    return (zone or ".") if owner == "@" else f"{owner}.{zone}" if zone else owner


def unknown_name(farm: Farm, name: str) -> str:
    """Return the error message for a name that ``find_owner`` does not find."""
    owners = [(full_owner(pool, owner), owner) for pool in farm.pools for owner in pool.config.names]
    same = [full for full, owner in owners if owner == name.lower()]
    if len(same) > 1:
        return f"{name!r} is a name in several zones: {', '.join(same)}; use the full name"
    if "." not in name and (hint := nearest(name, [owner for _, owner in owners])).startswith("."):
        return f"no pool serves the name {name!r}{hint}"
    hint = nearest(name, [full for full, _ in owners])
    return f"no pool serves the name {name!r}{hint if len(hint) <= LONGEST_HINT else hint[:LONGEST_HINT] + ' ...'}"


def explain(
    pool: Pool,
    owner: str,
    chooser: Chooser,
    cursor: PlanCursor,
    overrides: Overrides,
    parts: ScoreParts,
    now: float,
    backup: BackupUse | None = None,
    sites: SitePlans | None = None,
) -> dict[str, Any]:
    """Return an explanation of which member will be selected next for ``owner``; ``now`` is in monotonic seconds.

    ``backup`` states how many answers go to the pool's backup, and why; it is None if the pool has no backup. ``sites``
    is None if the pool has no sites; otherwise, the explanation is for clients in no network.

    This function changes no state and therefore does not affect the next answer.
    """
    policy = pool.config.names[owner]
    view, liveness, plan, taken = chooser.view(policy, now), chooser.liveness, cursor.plan, cursor.taken
    coming = next_selections(plan, taken, PREVIEW)
    why, summary = _reasons(pool, policy, chooser, cursor, now, backup, sites, lambda: view)
    return {
        "name": full_owner(pool, owner),
        "owner": owner,
        "pool": pool.name,
        "zone": pool.config.zone,
        "policy": policy,
        "ttl": pool.config.ttl,
        "next": pool.selectable[coming[0]].name,
        "alternatives": _alternatives(pool, cursor),
        "why": why,
        "summary": summary,
        "backup": backup_document(backup),
        **site_documents(sites, pool),
        "fail_open": bool(liveness.fail_open) and not (backup and backup.takes_all),
        "fail_open_reason": "" if backup and backup.takes_all else liveness.fail_open,
        "measured": view.measured,
        "interval_s": round(view.interval, 3),
        # The chooser does not count the selections from the current plan until it makes the next plan
        "answers_per_s": round(view.answers_per_s + taken * chooser.unheard_factor(now) / AVERAGE, 3),
        "requests_per_s": round(view.requests_per_s, 3) if view.requests_per_s < math.inf else None,
        "answers_allowed": _allowed(plan, taken, view),
        "plan": {
            "length": len(plan.order),
            "given": taken,
            "part": "probe" if taken < plan.probes else plan.part(taken),
            "next": [pool.selectable[i].name for i in coming],
            "repeats": True,
        },
        "members": _members(pool, policy, chooser, view, cursor, overrides, parts, now),
    }


def backup_document(backup: BackupUse | None) -> dict[str, Any] | None:
    """Return how many of a pool's answers go to its backup as plain data, or None if it has no backup."""
    return None if backup is None else {"pool": backup.pool, "share": round(backup.share, 4), "why": backup.why}


def spilled(pool: Pool, due: int, backup: BackupUse | None) -> str:
    """Return why an answer names the member ``due`` if this is a member of the backup, or an empty string."""
    if due < len(pool.members):
        return ""
    return (
        f"pool {pool.name} {backup.text}" if backup and backup.text else f"a member of the backup of pool {pool.name}"
    )


def upcoming(
    pool: Pool,
    policy: str,
    chooser: Chooser,
    cursor: PlanCursor,
    now: float,
    backup: BackupUse | None = None,
    sites: SitePlans | None = None,
) -> dict[str, Any]:
    """Return the members that the next answers under ``policy`` will name first. For the first of these members, also
    return its share of the planned answers, the reason for its selection, a summary of this reason (one sentence with
    the number that decided), and the other members that the same answer will name.

    This part of ``explain`` is cheap enough for every status document. A view of the pool is needed only to give the
    reason for a selection in light traffic.
    """
    plan, taken = cursor.plan, cursor.taken
    coming = next_selections(plan, taken, UPCOMING)
    view = cache(partial(chooser.view, policy, now))
    why, summary = _reasons(pool, policy, chooser, cursor, now, backup, sites, view)
    return {
        "members": [pool.selectable[i].name for i in coming],
        "why": why,
        "summary": summary,
        "share": _planned_share(plan, taken, coming[0]),
        "alternatives": _alternatives(pool, cursor),
    }


def _reasons(
    pool: Pool,
    policy: str,
    chooser: Chooser,
    cursor: PlanCursor,
    now: float,
    backup: BackupUse | None,
    sites: SitePlans | None,
    view: Callable[[], PoolView],
) -> tuple[str, str]:
    """Return the reason for the next selection, and a summary of this reason."""
    plan, taken = cursor.plan, cursor.taken
    (due,) = next_selections(plan, taken, 1)
    if why := spilled(pool, due, backup) or ("" if taken < plan.probes else elsewhere(due, sites)):
        return why, why
    guard = chooser.guards(now)[due]
    why = _why(policy, plan, taken, chooser.liveness, view, guard)
    if (backup and backup.share) or sites:
        return why, why  # the share of a blended plan is not the share by which the policy selects the member
    share = _planned_share(plan, taken, due)
    return why, _summary(pool, policy, chooser, cursor, guard, due, share, view) or why


def _alternatives(pool: Pool, cursor: PlanCursor) -> list[str]:
    """Return the names of the members that follow the first member in the next answer, best first."""
    return [pool.selectable[i].name for i in cursor.next_members[1:]] if isinstance(cursor, ListCursor) else []


def _summary(
    pool: Pool,
    policy: str,
    chooser: Chooser,
    cursor: PlanCursor,
    guard: Guard,
    due: int,
    share: float | None,
    view: Callable[[], PoolView],
) -> str:
    """Return, in one sentence, why the next answer names the member ``due``. The result is empty if ``why`` should be
    shown instead."""
    liveness, plan = chooser.liveness, cursor.plan
    if liveness.fail_open:
        return "" if plan.weights else f"{liveness.fail_open}, so all members that are not drained take turns"
    if cursor.taken < plan.probes or len(liveness.candidates) == 1:
        return ""
    capacities = chooser.pool.weighted(chooser.pool.observed_capacities())
    whole = sum(capacities[i] for i in liveness.candidates)
    selection = NextSelection(
        member=due,
        previous=cursor.last,
        candidates=len(liveness.candidates),
        share=share,
        capacity_share=capacities[due] / whole if whole else 0.0,
        is_starting=guard.ramp < 1,
        names=[member.name for member in pool.members],
        view=view,
    )
    return summarize(policy, plan.part(cursor.taken), selection)


def _planned_share(plan: Plan, taken: int, member: int) -> float | None:
    """Return the member's share of the answers expected until the next plan, or None if the plan has no shares."""
    total = sum(plan.weights)
    if total <= 0 or taken < plan.probes or plan.part(taken) != "expected":
        return None
    return round(plan.weights[member] / total, 4)


def _members(
    pool: Pool,
    policy: str,
    chooser: Chooser,
    view: PoolView,
    cursor: PlanCursor,
    overrides: Overrides,
    parts: ScoreParts,
    now: float,
) -> list[dict[str, Any]]:
    selections, liveness = cursor.selections(), chooser.liveness
    totals = cursor.totals()[: len(pool.members)]
    counts = selections.counts[: len(pool.members)]  # without those of a backup
    credits, guards = carried_credits(replace(selections, counts=counts), len(pool.members)), chooser.guards(now)
    capacity, answers = sum(seen.capacity for seen in view.members), sum(totals)
    on_time, candidates = set(view.on_time), set(liveness.candidates)
    odds, by_member = probabilities(cursor.plan, cursor.taken), _by_member(overrides)
    found = []
    for i, (member, seen, reading) in enumerate(zip(pool.members, view.members, chooser.pool.readings, strict=True)):
        mine = by_member.get(member.full_name)
        in_force = Overrides(tuple(mine)).of(pool.name, member.full_name) if mine else []
        found.append(
            {
                "name": member.name,
                "addresses": list(member.addresses),
                "state": liveness.states[i],
                "reason": reason(liveness.states[i], reading, in_force, now, pool.name),
                "guard": guards[i].text(now),
                "candidate": i in candidates,
                "suspect": seen.usable and i not in on_time,
                **reported(reading, parts, now),
                "capacity": round(seen.capacity, 3),
                "capacity_share": round(seen.capacity / capacity, 6) if capacity else 0.0,
                "cores": round(seen.cores, 3),
                "load": round(seen.load, 3),
                "charge": round(seen.charge + selections.counts[i] * view.multiplier, 3),
                "credit": round(credits[i], 3),
                "left": round(seen.available_share, 4),
                "other_tasks": round(seen.other_tasks, 1),
                "standstill": round(seen.standstill, 4),
                "ramp": round(seen.ramp, 4),
                "weight": chooser.pool.factor(member.full_name),
                "probability": round(odds.get(i, 0.0), 6),
                "answers": totals[i],
                "share": round(totals[i] / answers, 6) if answers else 0.0,
                "overrides": [override.document() for override in in_force],
            }
        )
    return found


def _by_member(overrides: Overrides) -> Mapping[str, Sequence[Override]]:
    """Group overrides by full member name, because searching all overrides for each of 200 members would be slow."""
    found: dict[str, list[Override]] = defaultdict(list)
    for override in overrides.items:
        found[override.member].append(override)
    return found


def _allowed(plan: Plan, taken: int, view: PoolView) -> int:
    if plan.light:
        return max(0, plan.repeat_from - max(taken, plan.probes))
    return max(0, view.answers_allowed - taken)


def next_selections(plan: Plan, taken: int, count: int) -> Sequence[int]:
    """Skip the first ``taken`` selections of a plan, and return the next ``count`` selections."""
    order, begin = plan.order, plan.repeat_from
    at = taken if taken < len(order) else begin + (taken - len(order)) % (len(order) - begin)
    return tuple(islice(chain(order[at:], cycle(order[begin:])), count))


def probabilities(plan: Plan, taken: int) -> Mapping[int, float]:
    """Return each member's share of the plan's next selections, keyed by member index.

    If selections for light traffic remain in the plan, the shares are computed from these selections. If selections for
    the expected answers remain, the function returns the plan's own shares, because a few selections cannot show small
    shares. Otherwise, the shares are computed from one full round of the plan, so that they do not depend on the
    current position in the round.
    """
    begin = plan.repeat_from
    if begin > max(taken, plan.probes) and not plan.light:
        return {member: weight for member, weight in enumerate(plan.weights) if weight > 0}
    if plan.light and taken < begin:
        coming: Sequence[int] = plan.order[taken:begin]
    else:
        coming = next_selections(plan, taken, len(plan.order) - begin + max(0, plan.probes - taken))
    return {member: count / len(coming) for member, count in Counter(coming).items()}


def _why(policy: str, plan: Plan, taken: int, liveness: Liveness, view: Callable[[], PoolView], guard: Guard) -> str:
    spec = POLICIES[policy]
    if liveness.fail_open and plan.weights:
        return f"the pool fails open ({liveness.fail_open}): {spec.reason(view)}"
    if liveness.fail_open:
        all_drained = set(liveness.states) == {"drained"}
        members = "all members are drained and" if all_drained else "all members that are not drained"
        return f"the pool fails open ({liveness.fail_open}): {members} take turns"
    if taken < plan.probes:
        suspicion = f" ({guard.why})" if guard.why else ""
        return f"a probe: the member seems to have failed{suspicion}, and this answer tests whether it works again"
    if len(liveness.candidates) == 1:
        return "no other member can be selected"
    return spec.reason(view, plan.part(taken))


def reported(reading: Reading | None, parts: ScoreParts, now: float) -> dict[str, Any]:
    """Return the contents of a member's newest report: score, score parts, age and metrics."""
    if reading is None:
        return {"score": None, "score_parts": {}, "age_s": None, "metrics": {}}
    return {
        "score": reading.score,
        "score_parts": score_parts(reading, parts),
        "age_s": round(max(0.0, now - reading.received), 3),
        "metrics": dict(reading.metrics),
    }


def score_parts(reading: Reading, parts: ScoreParts) -> dict[str, float]:
    """Return the points that each metric adds to the score of ``reading``.

    The result is empty if the points do not add up to the score. This happens if another collector computed the score,
    or if the weights have changed since then.
    """
    found = parts(reading.metrics)
    fits = int(sum(found.values()) + ROUNDING) == reading.score
    return {metric: round(part, 2) for metric, part in found.items()} if fits else {}
