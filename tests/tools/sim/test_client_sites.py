"""Tests of the sites near simulated clients, and of the figures of each site."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from lbdns_tools.sim.client_sites import ClientSites, SiteTally, swings
from lbdns_tools.sim.simulation_results import FarmMoment
from lbdns_tools.sim.simulation_scenario import Scenario, ServerSpec

SERVERS = (ServerSpec("a", cores=3, site="ber"), ServerSpec("b", cores=1, site="par"))


def drawn(clients: ClientSites) -> float:
    """Return the share of the clients near the second site."""
    return Counter(clients.draw() for _ in range(20_000))[1] / 20_000


def test_clients_are_near_sites_by_capacity_or_by_weight() -> None:
    assert drawn(ClientSites(Scenario(SERVERS), Random(1))) == pytest.approx(0.25, abs=0.02)
    weighted = Scenario(SERVERS, client_sites=(("par", 3.0), ("ber", 1.0)))
    assert drawn(ClientSites(weighted, Random(1))) == pytest.approx(0.75, abs=0.02)
    one = Scenario(SERVERS, client_sites=(("par", 3.0),))
    assert drawn(ClientSites(one, Random(1))) == 1.0


def test_without_sites_all_clients_are_alike() -> None:
    clients = ClientSites(Scenario((ServerSpec("a"),)), Random(1))
    assert {clients.draw() for _ in range(10)} == {0}
    assert clients.multiply(None, 3.0) == 3.0


def test_a_surge_near_a_site_changes_the_rate_and_the_sites() -> None:
    clients = ClientSites(Scenario(SERVERS), Random(1))
    assert clients.multiply(1, 3.0) == pytest.approx(1.5)
    assert drawn(clients) == pytest.approx(0.5, abs=0.02)
    assert clients.multiply(None, 2.0) == pytest.approx(3.0)
    assert clients.multiply(1, 1.0) == pytest.approx(2.0)
    assert drawn(clients) == pytest.approx(0.25, abs=0.02)


def test_requests_without_a_response_have_failed() -> None:
    tally = SiteTally()
    tally.sent, tally.kept, tally.failed = 4, 3, 1
    tally.responses.extend([0.1, 0.2, 10.0])
    found = tally.figures("ber", 2)
    assert (found.requests, found.local, found.failed, found.swings) == (4, 0.75, 2, 2)
    assert (found.mean_ms, found.p95_ms) == pytest.approx((5075.0, 10_000.0))
    assert SiteTally().figures("ber", 0).requests == 0


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([1.0, 1.0, 1.0], 0),
        ([1.0, 0.8, 0.6, 0.6], 0),  # one change is no swing
        ([1.0, 0.6, 0.9, 1.0], 1),
        ([1.0, 0.6, 0.65, 0.6, 0.66, 0.6], 0),  # less than a tenth
        ([1.0, 0.6, 1.0, 0.6, 1.0], 3),
        ([], 0),
    ],
)
def test_swings_are_turns_of_the_share(shares: list[float], expected: int) -> None:
    moments = [FarmMoment(10.0 + n, (), (), 0, 0.0, (0.5, share)) for n, share in enumerate(shares)]
    assert swings([FarmMoment(1.0, (), (), 0, 0.0, (1.0, 0.0)), *moments], 5.0, 1) == expected
