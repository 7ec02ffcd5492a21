"""Checks which links of a farm are delayed and lossy, and that reports can have further delays and losses."""

from __future__ import annotations

import pytest

from lbdns_tools.lab.farm.lab_farm import LabFarm, WebHost, machines
from lbdns_tools.lab.machines.emulated_links import LinkCondition
from lbdns_tools.lab.machines.link_distances import LinkDistances

MACHINES = {
    machine.name: machine
    for machine in machines(LabFarm((WebHost("a", 0.1), WebHost("b", 0.1)), clients=2, proxies=("nginx",), resolvers=1))
}


def links_of(distances: LinkDistances) -> dict[tuple[str, str], LinkCondition]:
    return {
        (sender.name, receiver.name): condition
        for sender, receivers, condition in distances.links(MACHINES)
        for receiver in receivers
    }


def test_every_link_between_clients_dns_and_hosts_has_half_of_the_round_trip() -> None:
    found = links_of(LinkDistances(0.08, 0.01))
    kinds: tuple[tuple[str, ...], ...] = (("client1", "client2"), ("dns",), ("a", "b"))
    assert set(found) == {
        (sender, receiver)
        for senders in kinds
        for sender in senders
        for receivers in kinds
        if receivers is not senders
        for receiver in receivers
    }
    assert set(found.values()) == {LinkCondition(0.04, 0.01)}


def test_reports_can_have_further_delays_and_losses() -> None:
    found = links_of(LinkDistances(0.02, 0.1, report_delay_s=1.0, report_loss=0.5))
    reports = {link for link, condition in found.items() if condition != LinkCondition(0.01, 0.1)}
    assert reports == {("a", "dns"), ("b", "dns")}
    assert found["a", "dns"].delay_s == pytest.approx(1.01)
    assert found["a", "dns"].loss == pytest.approx(0.55)


def test_links_without_delay_and_loss_are_left_alone() -> None:
    assert links_of(LinkDistances()) == {}
    assert set(links_of(LinkDistances(report_loss=0.3))) == {("a", "dns"), ("b", "dns")}
