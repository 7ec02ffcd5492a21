"""The table of policies. A policy decides the order in which members are selected.

To add one: write a module with its ``PolicySpec``, add the spec to ``POLICIES``, add a test and a row in the docs.
"""

from __future__ import annotations

from typing import Final

from lbdns.policies.best import BEST
from lbdns.policies.greedy_charging import LEAST_CHARGED, TWO_CHOICES
from lbdns.policies.plan import PolicySpec
from lbdns.policies.rotation import BEST_SCORE, ROUND_ROBIN
from lbdns.policies.weighted import WEIGHTED

#: Every policy, by the name that configurations use
POLICIES: Final[dict[str, PolicySpec]] = {
    spec.name: spec for spec in (BEST, BEST_SCORE, ROUND_ROBIN, WEIGHTED, LEAST_CHARGED, TWO_CHOICES)
}
