"""Names of metrics that agents must not use."""

from __future__ import annotations

from lbdns.history.history_sample import OWN
from lbdns.scores.derived_metrics import DERIVED_METRICS
from lbdns_shared.metric_catalogue import CATALOGUE, RESERVED


def test_the_agent_knows_the_names_that_the_server_uses() -> None:
    assert {*DERIVED_METRICS, *OWN} == RESERVED
    assert RESERVED.isdisjoint(CATALOGUE)
