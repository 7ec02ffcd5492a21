"""Why a name is answered as it is: one document for the command, the HTTP interface, the page and DNS. Pure: clocks
are arguments. What each figure means is in docs/explain.md."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, cycle, islice
from typing import Any, Final

from lbdns.answering.handout import Handout
from lbdns.farm import Farm, Pool
from lbdns.liveness import Liveness, State
from lbdns.overrides import Override, Overrides
from lbdns.policies import FEW, HIGHEST, WHY, WHY_FIRST
from lbdns.policies.chooser import AVERAGE, Chooser
from lbdns.policies.guard_rails.guards import Guard
from lbdns.policies.plan import Plan, PoolView
from lbdns.policies.spread import carried_credits
from lbdns.policies.suspicion import trusted
from lbdns.snapshot import Reading
from lbdns.toml_table import nearest

PREVIEW: Final = 10  # hand-outs of a plan that are told
LONGEST_HINT: Final = 300  # characters: there may be thousands of names, and an error is read by a person
ROUNDING: Final = 1e-6  # points: a sum of floats may come out just below a whole number

#: What the metrics of a report add to its score, by metric
Parts = Callable[[Mapping[str, float]], Mapping[str, float]]


def find_owner(farm: Farm, name: str) -> tuple[Pool, str] | None:
    """The pool that is asked by ``name`` (text, any letter case) and the owner name as the configuration writes it.

    With a final dot it is a name in full; without, it may be relative to a zone as well, if it means one pool only.
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
    """An owner name of a pool in full, without the final dot; the root is "."."""
    zone = pool.zone.name
    return (zone or ".") if owner == "@" else f"{owner}.{zone}" if zone else owner


def unknown_name(farm: Farm, name: str) -> str:
    """What to say of a name that ``find_owner`` doesn't find."""
    owners = [(full_owner(pool, owner), owner) for pool in farm.pools for owner in pool.config.names]
    same = [full for full, owner in owners if owner == name.lower()]
    if len(same) > 1:
        return f"{name!r} is a name in several zones: {', '.join(same)}; write it in full"
    if "." not in name and (meant := nearest(name, [owner for _, owner in owners])).startswith("."):
        return f"no pool is asked by {name!r}{meant}"
    hint = nearest(name, [full for full, _ in owners])
    return f"no pool is asked by {name!r}{hint if len(hint) <= LONGEST_HINT else hint[:LONGEST_HINT] + ' ...'}"


def explain(
    pool: Pool,
    owner: str,
    chooser: Chooser,
    handout: Handout,
    overrides: Overrides,
    parts: Parts,
    now: float,
) -> dict[str, Any]:
    """Who is handed out next for ``owner``, and what that rests on; ``now`` is in monotonic seconds. Nothing moves."""
    policy = pool.config.names[owner]
    view, liveness, plan, given = chooser.view(policy, now), chooser.liveness, handout.plan, handout.given
    coming = to_come(plan, given, PREVIEW)
    due = coming[0]
    return {
        "name": full_owner(pool, owner),
        "owner": owner,
        "pool": pool.name,
        "zone": pool.config.zone,
        "policy": policy,
        "ttl": pool.config.ttl,
        "next": pool.members[due].name,
        "why": _why(policy, plan, given, liveness, view, chooser.guards(now)[due]),
        "fail_open": bool(liveness.fail_open),
        "fail_open_reason": liveness.fail_open,
        "measured": view.measured,
        "interval_s": round(view.interval, 3),
        # What was given out of the present plan the chooser hears of with the next one
        "answers_per_s": round(view.answers_per_s + given * chooser.servers / AVERAGE, 3),
        "requests_per_s": round(view.requests_per_s, 3) if view.requests_per_s < math.inf else None,
        "answers_allowed": _allowed(policy, plan, given, view),
        "plan": {
            "length": len(plan.order),
            "given": given,
            "next": [pool.members[i].name for i in coming],
            "repeats": True,
        },
        "members": _members(pool, policy, chooser, view, handout, overrides, parts, now),
    }


def _members(
    pool: Pool,
    policy: str,
    chooser: Chooser,
    view: PoolView,
    handout: Handout,
    overrides: Overrides,
    parts: Parts,
    now: float,
) -> list[dict[str, Any]]:
    handed, totals, liveness = handout.handed(), handout.totals(), chooser.liveness
    credits, guards = carried_credits(handed, len(pool.members)), chooser.guards(now)
    capacity, answers = sum(seen.capacity for seen in view.members), sum(totals)
    trusts, candidates = set(trusted(view)), set(liveness.candidates)
    odds, orders = probabilities(policy, handout.plan, handout.given), _by_member(overrides)
    found = []
    for i, (member, seen, reading) in enumerate(zip(pool.members, view.members, chooser.readings, strict=True)):
        mine = orders.get(member.full_name)
        ordered = Overrides(tuple(mine)).of(pool.name, member.full_name) if mine else []
        found.append(
            {
                "name": member.name,
                "addresses": list(member.addresses),
                "state": liveness.states[i],
                "reason": reason(liveness.states[i], reading, ordered, now),
                "guard": guards[i].text(now),
                "candidate": i in candidates,
                "suspect": seen.usable and i not in trusts,
                **reported(reading, parts, now),
                "capacity": round(seen.capacity, 3),
                "capacity_share": round(seen.capacity / capacity, 6) if capacity else 0.0,
                "cores": round(seen.cores, 3),
                "load": round(seen.load, 3),
                "charge": round(seen.charge + handed.counts[i] * view.multiple, 3),
                "credit": round(credits[i], 3),
                "left": round(seen.left, 4),
                "ramp": round(seen.ramp, 4),
                "weight": chooser.steering.factors.get(member.full_name, 1.0),
                "probability": round(odds.get(i, 0.0), 6),
                "answers": totals[i],
                "share": round(totals[i] / answers, 6) if answers else 0.0,
                "overrides": [override.document() for override in ordered],
            }
        )
    return found


def _by_member(overrides: Overrides) -> Mapping[str, Sequence[Override]]:
    """By full name: to go through all of them for each of 200 members takes longer than all the rest."""
    found: dict[str, list[Override]] = defaultdict(list)
    for override in overrides.items:
        found[override.member].append(override)
    return found


def _first_until(policy: str, plan: Plan) -> int:
    """How many hand-outs the part has that the plan of a policy begins with otherwise than it goes on; 0 without."""
    return plan.repeat_from if policy in WHY_FIRST and plan.repeat_from > plan.probes else 0


def _allowed(policy: str, plan: Plan, given: int, view: PoolView) -> int:
    """How many more hand-outs count as few: what its plan says, where the policy makes that difference."""
    if policy in WHY_FIRST:
        return max(0, _first_until(policy, plan) - max(given, plan.probes))
    return max(0, view.answers_allowed - given)


def to_come(plan: Plan, given: int, count: int) -> Sequence[int]:
    """The next ``count`` hand-outs of a plan if no other comes before, after ``given``."""
    order, begin = plan.order, plan.repeat_from
    at = given if given < len(order) else begin + (given - len(order)) % (len(order) - begin)
    return tuple(islice(chain(order[at:], cycle(order[begin:])), count))


def probabilities(policy: str, plan: Plan, given: int) -> Mapping[int, float]:
    """By index: each member's part of the hand-outs to come. While queries are few, of those that still are; else of
    one whole round of the plan, so that it doesn't depend on where in the round we are."""
    until = _first_until(policy, plan)
    if given < until:
        coming = plan.order[given:until]
    else:
        coming = to_come(plan, given, len(plan.order) - plan.repeat_from + max(0, plan.probes - given))
    return {member: count / len(coming) for member, count in Counter(coming).items()}


def _why(policy: str, plan: Plan, given: int, liveness: Liveness, view: PoolView, guard: Guard) -> str:
    """Why the member that is due, which has this guard, is."""
    if liveness.fail_open and plan.weights:
        return f"the pool fails open ({liveness.fail_open}): {WHY[policy]}"
    if liveness.fail_open:
        all_drained = set(liveness.states) == {"drained"}
        who = "drained as they all are, they" if all_drained else "all that are not drained"
        return f"the pool fails open ({liveness.fail_open}): {who} take turns"
    if given < plan.probes:
        against = f" ({guard.why})" if guard.why else ""
        return f"a probe: something speaks against it{against}, and a hand-out shows whether that is still so"
    if len(liveness.candidates) == 1:
        return "no other member can be handed out"
    why = WHY_FIRST[policy] if given < _first_until(policy, plan) else WHY[policy]
    if why not in (FEW, HIGHEST):
        return why
    scores = [view.members[i].score for i in liveness.candidates]
    tied = scores.count(max(scores))
    return f"{why}, which {tied} members have: they take turns" if tied > 1 else why


def reported(reading: Reading | None, parts: Parts, now: float) -> dict[str, Any]:
    """What a member's report says: score and its parts, age, metrics."""
    if reading is None:
        return {"score": None, "score_parts": {}, "age_s": None, "metrics": {}}
    return {
        "score": reading.score,
        "score_parts": score_parts(reading, parts),
        "age_s": round(max(0.0, now - reading.received), 3),
        "metrics": dict(reading.metrics),
    }


def score_parts(reading: Reading, parts: Parts) -> dict[str, float]:
    """What each metric adds to a score; nothing where that is not what the score came from: another collector's score,
    or weights that have changed since."""
    found = parts(reading.metrics)
    fits = int(sum(found.values()) + ROUNDING) == reading.score
    return {metric: round(part, 2) for metric, part in found.items()} if fits else {}


def reason(state: State, reading: Reading | None, overrides: Sequence[Override], now: float) -> str:
    """Why a member is in its state, in words; empty if it is usable and nobody has ordered anything."""
    if state == "usable" and not overrides:
        return ""
    by_slot = {override.slot: override for override in overrides}
    if state == "drained":
        return by_slot["drain"].text() if "drain" in by_slot else "drained"
    forced = by_slot.get("force")
    if state == "alarm":
        return forced.text() if forced else f"alarm: {reading.alarm if reading else ''}"
    if state == "unknown":
        return "has never reported"
    if state == "silent":
        return _silence(reading, now)
    said = [forced.text()] if forced else []
    if "weight" in by_slot:
        said.append(by_slot["weight"].text())
    return "; ".join(said)


def _silence(reading: Reading | None, now: float) -> str:
    if reading is None:
        return "has never reported"
    seconds = max(0.0, now - reading.received)
    ago = f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"its agent said goodbye {ago} ago" if reading.gone else f"no report for {ago}"
