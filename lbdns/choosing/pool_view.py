"""Builds a policy's view of a pool: members' loads, capacities and charges, and the pool's request and answer rates."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Container, Sequence
from typing import Final, cast

from lbdns.choosing.answer_tally import AnswerTally
from lbdns.choosing.candidates import Candidates
from lbdns.choosing.light_traffic import answers_allowed, brings_crowds
from lbdns.choosing.observed_columns import has_none, present
from lbdns.choosing.observed_pool import AVERAGE, ObservedPool
from lbdns.choosing.reported_values import filled_loads
from lbdns.model.liveness import Liveness
from lbdns.policies.member_columns import MemberColumns, gathered
from lbdns.policies.plan import PoolView
from lbdns.policies.steps import Steps, finish

LOWEST_SCORE: Final = -1  # below every score, so that a member with unproven health is never the best


def build_view(pool: ObservedPool, tally: AnswerTally, candidates: Candidates, policy: str, now: float) -> PoolView:
    """Return the pool as ``policy`` sees it at ``now`` (monotonic seconds)."""
    return finish(view_steps(pool, tally, candidates, policy, now))


def view_steps(
    pool: ObservedPool, tally: AnswerTally, candidates: Candidates, policy: str, now: float
) -> Steps[PoolView]:
    """Return the same view as ``build_view``, in steps."""
    yield from pool.estimate_steps()
    usable, observed = candidates.liveness.candidates, pool.observed_capacities()
    unproven = candidates.quarantine_exempt | candidates.unproven
    yield
    capacity = pool.weighted(observed)
    yield
    scores = pool.weighted_scores(_scores(pool, usable))
    yield
    if unproven:
        scores = [LOWEST_SCORE if i in unproven else score for i, score in enumerate(scores)]
    interval = pool.interval
    in_progress = gathered(pool.columns.in_progress, usable)
    in_progress_total = math.inf if has_none(in_progress) else sum(cast("list[float]", in_progress))
    yield
    limited = yield from pool.rate_steps(observed)
    yield
    rates = present(limited)
    yield
    loads = _loads(pool, unproven, capacity)
    yield
    confirmed = yield from pool.proven_steps(observed)
    proven = pool.weighted(confirmed)
    yield
    allowed = _answers_allowed(pool, tally, candidates, policy, interval, capacity, now)
    yield
    overdue = frozenset(candidates.overdue(now))
    charges = tally.all_charges(capacity, pool.reported, usable, now)
    yield
    members = MemberColumns(
        candidates=usable,
        overdue=overdue,
        scores=scores,
        loads=loads,
        capacities=capacity,
        cores=pool.cores,
        proven_capacities=proven,
        charges=charges,
        available_shares=pool.available_shares(),
        alarmed=_alarmed(candidates.liveness),
        ramps=candidates.ramps(now),
        # The caller may keep the view after the pool's next observation
        other_tasks=dict(pool.other_tasks()),
        standstills=dict(pool.standstills()),
    )
    yield
    return PoolView(
        members=members,
        interval=interval,
        # If no member counts requests, the answers are the only measure
        requests_per_s=sum(rates) if rates else math.inf,
        in_progress=in_progress_total,
        answers_per_s=tally.rate(policy, now),
        answers_allowed=allowed,
        fail_open=bool(candidates.liveness.fail_open),
        measured=pool.measured,
        multiplier=tally.multiplier(now),
        max_speed_gain=pool.max_speed_gain,
        recent_answers_per_s=tally.recent_rate(policy, now),
    )


def _loads(pool: ObservedPool, unproven: Container[int], capacity: Sequence[float]) -> Sequence[float]:
    """Return each member's load. A member with unproven health looks idle; without its load, it is assumed to be as
    loaded as the others."""
    loads = pool.columns.loads
    if unproven:
        return filled_loads([None if i in unproven else load for i, load in enumerate(loads)], capacity)
    return filled_loads(loads, capacity) if has_none(loads) else cast("list[float]", loads)


def _alarmed(liveness: Liveness) -> Collection[int]:
    """Return the members in alarm."""
    if "alarm" not in liveness.states:
        return frozenset()
    return frozenset(i for i, state in enumerate(liveness.states) if state == "alarm")


def _scores(pool: ObservedPool, usable: Sequence[int]) -> list[int]:
    """Return each member's score. A member without an agent has the median score of the usable members with agents."""
    scores = pool.columns.scores
    if not has_none(scores):
        return scores.copy()  # type: ignore[return-value]  # a filter would take ten times as long
    known = [score for i in usable if (score := scores[i]) is not None]
    middle = statistics.median_low(known) if known else 0
    return [middle if score is None else score for score in scores]


def _answers_allowed(
    pool: ObservedPool,
    tally: AnswerTally,
    candidates: Candidates,
    policy: str,
    interval: float,
    capacity: Sequence[float],
    now: float,
) -> int:
    answered = tally.answers(policy).count(now) / (1 + tally.others.number(now))
    allowed = answers_allowed(answered, AVERAGE, interval, tally.servers_known(now))
    if not allowed or not pool.measured:
        return allowed
    usable = candidates.liveness.candidates
    columns = pool.columns
    own = [1 / (columns.intervals[i] or 1.0) for i in usable]  # each agent reads its server-status once an interval
    averages = [columns.requests_per_s[i] or 0.0 for i in usable]
    average = [max(0.0, requests - status) for requests, status in zip(averages, own, strict=True)]
    reported = [columns.metrics[i].get("requests_per_s", 0.0) for i in usable]
    newest = [max(0.0, requests - status) for requests, status in zip(reported, own, strict=True)]
    # A client that keeps an answer for longer than the averaging window sends less than one query in that time
    answers_per_s = max(tally.rate(policy, now), 1 / AVERAGE)
    recent = [tally.recent.values[i] for i in usable]
    crowd = brings_crowds(average, newest, recent, [capacity[i] for i in usable], answers_per_s, interval)
    return 0 if crowd else allowed
