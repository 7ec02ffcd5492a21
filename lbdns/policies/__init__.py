"""How a member is chosen: one policy, one file, one line in each table. Pure: no socket, no clock, no chance of
their own; time and chance come in as arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lbdns.policies.best import best
from lbdns.policies.best_score import best_score
from lbdns.policies.least_charged import least_charged
from lbdns.policies.plan import Policy
from lbdns.policies.round_robin import round_robin
from lbdns.policies.two_choices import two_choices
from lbdns.policies.weighted import weighted

POLICIES: Final[Mapping[str, Policy]] = {
    "best": best,
    "best_score": best_score,
    "round_robin": round_robin,
    "weighted": weighted,
    "least_charged": least_charged,
    "two_choices": two_choices,
}

#: Those that give each member a share by what reports say of its load or its work
WEIGHING: Final = frozenset({"best", "weighted"})

HIGHEST: Final = "the highest score"
FEW: Final = f"queries are few: {HIGHEST}"
#: Why each hands out whom it does, in words, when nothing stands in its way
WHY: Final[Mapping[str, str]] = {
    "best": "queries are many or bring a crowd: each member is filled to the level where all together take least time",
    "best_score": HIGHEST,
    "round_robin": "strict rotation",
    "weighted": "in proportion to capacity",
    "least_charged": "who is least full for its capacity, counting what was handed out since its report",
    "two_choices": "the less full one of two drawn by chance",
}
#: The same of those whose plans begin otherwise than they go on (up to ``Plan.repeat_from``), while they do
WHY_FIRST: Final[Mapping[str, str]] = {"best": FEW}
