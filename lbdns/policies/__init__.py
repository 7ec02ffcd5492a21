"""The table of policies. A policy determines the order in which members are selected.

To add a policy, write a module that contains its ``PolicySpec``, add the spec to ``POLICIES``, and add a test and a row
in the documentation.
"""

from __future__ import annotations

from typing import Final

from lbdns.policies.best import BEST
from lbdns.policies.best_score import BEST_SCORE
from lbdns.policies.least_charged import LEAST_CHARGED
from lbdns.policies.plan import PolicySpec
from lbdns.policies.round_robin import ROUND_ROBIN
from lbdns.policies.two_choices import TWO_CHOICES
from lbdns.policies.weighted import WEIGHTED

#: Every policy, by the name that configurations use
POLICIES: Final[dict[str, PolicySpec]] = {
    spec.name: spec for spec in (BEST, BEST_SCORE, ROUND_ROBIN, WEIGHTED, LEAST_CHARGED, TWO_CHOICES)
}
