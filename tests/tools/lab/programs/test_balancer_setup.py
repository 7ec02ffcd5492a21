"""Setups of balancers: what the lab's configuration of each balancer supports."""

from __future__ import annotations

import pytest

from lbdns_shared.errors import ConfigError
from lbdns_tools.lab.loads.farm_load import FRONTS
from lbdns_tools.lab.programs.balancer_setup import LEAST_CONNECTIONS, PASSED_THROUGH, BalancerSetup, check_setup


@pytest.mark.parametrize("setup", FRONTS.values(), ids=list(FRONTS))
def test_every_selection_is_supported(setup: BalancerSetup) -> None:
    check_setup(setup)


@pytest.mark.parametrize(
    ("setup", "error"),
    [
        (BalancerSetup("haprox"), r"unknown balancer 'haprox'.*haproxy"),
        (BalancerSetup("nginx", "source"), "nginx: method must be one of 'roundrobin', 'leastconn', not 'source'"),
        (BalancerSetup("pound", LEAST_CONNECTIONS), "pound: method must be one of 'roundrobin', not 'leastconn'"),
        (BalancerSetup("nginx", most_per_host=6), "nginx: most_per_host must be one of 0, not 6"),
        (BalancerSetup("haproxy", keeps_connections=True), "haproxy: keeps_connections must be one of False, not True"),
        (
            BalancerSetup("nginx", tls=PASSED_THROUGH),
            "nginx: tls must be one of '', 'terminated', not 'passed through'",
        ),
    ],
)
def test_what_is_not_supported(setup: BalancerSetup, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        check_setup(setup)
