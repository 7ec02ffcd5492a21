"""How a member is chosen: one policy, one file, one line in this table. Pure: no socket, no clock, no chance of
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
