"""Lists the rules of the policy ``best``, and switches off one rule at a time for an ablation study.

A rule is switched off by replacing constants and functions of lbdns in this process, so that lbdns itself needs no
switches. Replacing a name that no longer exists raises ``AttributeError``, so the study fails if lbdns has renamed it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from lbdns.choosing.capacity_estimate import ObservedCost
from lbdns.choosing.moving_averages import WindowRate
from lbdns.policies.operating_point import OperatingPoint, operating_point
from lbdns.policies.plan import PoolView, Selections
from lbdns.policies.steps import in_one_step
from lbdns.policies.weighted import smooth_plan_steps


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replaces an attribute while a rule is off.

    ``name`` is the attribute's name. ``owner`` is a module, or a class in the form ``module:class``.
    """

    owner: str
    name: str
    value: Any

    def apply(self) -> Callable[[], None]:
        """Replace the attribute, and return a function that restores it. Raise ``AttributeError`` if it is missing."""
        module, _, class_name = self.owner.partition(":")
        target: Any = import_module(module)
        if class_name:
            target = getattr(target, class_name)
        if self.name not in vars(target):
            raise AttributeError(f"{self.owner} has no attribute {self.name!r}")
        original = vars(target)[self.name]
        setattr(target, self.name, self.value)
        return lambda: setattr(target, self.name, original)


@dataclass(frozen=True, slots=True)
class AblationRule:
    """A rule of ``best``. ``purpose`` states what the rule does. The rule was made for the acceptance criteria whose
    names contain the text ``made_for``."""

    name: str
    purpose: str
    made_for: str
    replacements: tuple[Replacement, ...]


@contextmanager
def switched_off(rule: str) -> Iterator[None]:
    """Switch off the rule named ``rule``, or no rule if the name is empty, until the context ends."""
    restore = [replacement.apply() for replacement in RULES[rule].replacements] if rule else []
    try:
        yield
    finally:
        for undo in reversed(restore):
            undo()


def _proportional_point(capacities: Sequence[float], cores: Sequence[float], rate: float, *_: object) -> OperatingPoint:
    """Return rates in proportion to capacity. The ideal loads are 0, so every request counts as a deviation."""
    total = sum(capacities)
    return OperatingPoint(tuple(rate * c / total for c in capacities), (0.0,) * len(capacities))


def _unlimited_point(
    capacities: Sequence[float],
    cores: Sequence[float],
    rate: float,
    in_progress: float = math.inf,
    *contention: Mapping[int, float],
) -> OperatingPoint:
    return operating_point(capacities, cores, rate, math.inf, *contention)


def _split_by_width(
    loads: Sequence[float], widths: Sequence[float], limits: Sequence[float], amount: float
) -> list[float]:
    """Split ``amount`` in proportion to ``widths``, regardless of the loads."""
    return [width * amount / sum(widths) for width in widths]


def _requests_as_answers(view: PoolView) -> tuple[float, float]:
    """Return the expected rates of requests and of answers: for both, the average request rate."""
    rate = view.requests_per_s if view.requests_per_s < math.inf else view.answers_per_s
    return rate, rate


def _no_credits(previous: Selections | None, members: int) -> tuple[float, ...]:
    return (0.0,) * members


def _unchanged_speeds(speeds: Sequence[float], variances: Sequence[float]) -> list[float]:
    return list(speeds)


def _no_changes(costs: Sequence[ObservedCost]) -> list[int]:
    return []


def _average_rate(self: WindowRate, now: float, window: float) -> float:
    return self.rate(now)


_BEST: Final = "lbdns.policies.best"
_ESTIMATE: Final = "lbdns.choosing.capacity_estimate"
_VIEW: Final = "lbdns.choosing.pool_view"
_CANDIDATES: Final = "lbdns.choosing.candidates"
_POOL: Final = "lbdns.choosing.observed_pool"


def _rule(name: str, purpose: str, made_for: str, *replaced: tuple[str, str, Any]) -> AblationRule:
    return AblationRule(name, purpose, made_for, tuple(Replacement(*one) for one in replaced))


_ALL: Final = (
    _rule(
        "light-traffic",
        "names the member with the highest score while traffic is light",
        "light traffic",
        (_VIEW, "answers_allowed", lambda answered, span, interval, servers: 0),
    ),
    _rule(
        "fastest-of-equals",
        "names the fastest member within 3 points of the highest score while traffic is light",
        "light traffic",
        ("lbdns.policies.highest_scores", "SAME_SCORE", 0),
        ("lbdns.policies.highest_scores", "SAME_SPEED", math.inf),
    ),
    _rule(
        "slow-memory",
        "keeps the newest 200 requests of each member for an hour to estimate its speed",
        "light traffic",
        ("lbdns.choosing.request_cost", "KEPT", 0.0),
    ),
    _rule(
        "crowds-behind-caches",
        "does not treat a few answers as light traffic if each answer brings many requests",
        "few caching resolvers",
        (_VIEW, "brings_crowds", lambda *values: False),
    ),
    _rule(
        "level-filling",
        "fills the least loaded members first, instead of following the operating point alone",
        "",
        (_BEST, "NATIVE", False),
        (_BEST, "fill_to_level_steps", in_one_step(_split_by_width)),
    ),
    _rule(
        "operating-point",
        "minimises the total response time, instead of distributing requests in proportion to capacity",
        "unequal servers",
        (_BEST, "NATIVE", False),
        (_BEST, "operating_point_steps", in_one_step(_proportional_point)),
    ),
    _rule(
        "in-progress-limit",
        "never bases the operating point on more requests than are actually in progress",
        "closed loop",
        (_BEST, "NATIVE", False),
        (_BEST, "operating_point_steps", in_one_step(_unlimited_point)),
    ),
    _rule(
        "minimum-share",
        "gives every member at least a tenth of its share by capacity, so that its capacity stays known",
        "ninefold crowd",
        (_BEST, "MIN_SHARE", 1e-6),
    ),
    _rule(
        "lower-rate",
        "plans for the request rate or the answer rate, whichever is lower",
        "closed loop",
        (_BEST, "expected_rates", _requests_as_answers),
    ),
    _rule(
        "arriving-crowd",
        "uses the last second's answers when they exceed the average by more than chance explains",
        "ninefold crowd",
        ("lbdns.choosing.moving_averages:WindowRate", "recent_rate", _average_rate),
    ),
    _rule(
        "overflow",
        "distributes additional, unexpected answers in proportion to capacity until the next report arrives",
        "ninefold crowd",
        (_BEST, "heavy_plan_steps", smooth_plan_steps),
    ),
    _rule(
        "small-deviations",
        "corrects deviations of only a few requests less strongly if each answer leads to several requests",
        "closed loop with 20 clients",
        (_BEST, "HALF_CORRECTED", 1e-9),
    ),
    _rule(
        "carried-credits",
        "if a plan owes a member a fraction of an answer, carries that fraction over to the next plan",
        "identical servers",
        (_BEST, "carried_credits_steps", in_one_step(_no_credits)),
        ("lbdns.policies.weighted", "carried_credits_steps", in_one_step(_no_credits)),
    ),
    _rule(
        "alarm-limit",
        "gives a member in alarm no more than it can serve",
        "with alarms",
        (_VIEW, "_alarmed", lambda liveness: ()),
    ),
    _rule(
        "needed-despite-alarm",
        "selects members in alarm if the others cannot meet the demand",
        "alarms",
        (_CANDIDATES, "needed_despite_alarm", lambda *values: []),
    ),
    _rule(
        "spare-capacity",
        "if the others cannot serve the demand, does not quarantine members that may still be working",
        "status page",
        (_CANDIDATES, "spare", lambda suspended, *values: list(suspended)),
    ),
    _rule(
        "overdue-reports",
        "stops selecting a member whose report is overdue",
        "a server dies",
        ("lbdns.choosing.candidates:Candidates", "overdue", lambda self, now: ()),
    ),
    _rule(
        "slow-start",
        "raises the share of a new member over several seconds",
        "again and again",
        ("lbdns.choosing.candidates:Candidates", "ramps", lambda self, now: {}),
    ),
    _rule(
        "contention",
        "reduces a member's capacity while other programs use its CPUs",
        "other work on a host",
        ("lbdns.choosing.contention:Contention", "available_share", lambda self, cores: 1.0),
    ),
    _rule(
        "shrinkage",
        "moves estimated speeds towards their mean to the extent that chance explains the differences",
        "identical servers",
        (_ESTIMATE, "NATIVE", False),
        (_ESTIMATE, "_shrunk_steps", in_one_step(_unchanged_speeds)),
    ),
    _rule(
        "changed-cost",
        "discards a member's earlier requests if the cost of its requests changes",
        "become slower",
        (_POOL, "forget_changed_steps", in_one_step(_no_changes)),
    ),
    _rule(
        "confirmed-speed",
        "limits how much share a member can gain by reporting the fastest cores",
        "",
        (_ESTIMATE, "NATIVE", False),
        (_ESTIMATE, "_limited_to_others", lambda found, proven, gain: tuple(found)),
        (_BEST, "CONFIRMED", math.inf),
    ),
)
#: All rules, by name
RULES: Final = {rule.name: rule for rule in _ALL}
