"""Checks that ports in use are detected before any process is started."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from lbdns.demo import ports
from lbdns.demo.farm_files import DemoPlan
from lbdns_shared.errors import ListenError
from lbdns_tools.free_ports import free_ports


@pytest.fixture
def plan() -> DemoPlan:
    dns, report, http, web = free_ports(4)
    return DemoPlan(dns_port=dns, report_port=report, http_port=http, web_port=web, ipv6=ports.has_ipv6_loopback())


def test_free_ports_are_fine_and_stay_free(plan: DemoPlan) -> None:
    ports.check(ports.required_ports(plan))
    ports.check(ports.required_ports(plan))


@pytest.mark.parametrize(
    ("host", "kind", "port", "purpose", "flag"),
    [
        ("127.0.0.1", socket.SOCK_DGRAM, "dns_port", "DNS over UDP", "--dns-port"),
        ("127.0.0.1", socket.SOCK_STREAM, "dns_port", "DNS over TCP", "--dns-port"),
        ("127.0.0.1", socket.SOCK_DGRAM, "report_port", "reports", "--report-port"),
        ("127.0.0.1", socket.SOCK_STREAM, "http_port", "the page", "--http-port"),
        ("127.0.0.17", socket.SOCK_STREAM, "web_port", "web server frodo", "--web-port"),
    ],
)
def test_each_taken_port_is_named_with_its_flag(
    plan: DemoPlan, host: str, kind: socket.SocketKind, port: str, purpose: str, flag: str
) -> None:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind((host, getattr(plan, port)))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        with pytest.raises(ListenError) as caught:
            ports.check(ports.required_ports(plan))
    number = getattr(plan, port)
    assert str(caught.value) == (
        f"{host}:{number} ({purpose}): is in use; "
        f"stop the program that uses this port, or choose another port with {flag}"
    )
    assert caught.value.exit_status == 1


def test_all_taken_ports_at_once_also_those_wanted_twice(plan: DemoPlan) -> None:
    with pytest.raises(ListenError) as caught:
        ports.check(ports.required_ports(replace(plan, http_port=plan.dns_port, report_port=plan.dns_port)))
    lines = str(caught.value).splitlines()
    assert [line.split("(")[1].split(")")[0] for line in lines] == ["reports", "the page"]


def test_an_address_that_is_not_ours(plan: DemoPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "LOOPBACK", "192.0.2.1")
    with pytest.raises(ListenError, match=r"192\.0\.2\.1:\d+ \(DNS over UDP\): is not an address of this machine"):
        ports.check(ports.required_ports(plan))
