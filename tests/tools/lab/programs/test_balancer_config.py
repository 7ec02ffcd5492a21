"""The balancers' configuration files, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_tools.lab.farm.lab_farm import PROXIES, LabFarm, LabMachine, WebHost, machines
from lbdns_tools.lab.programs.balancer_config import CONFIGURATIONS, MOST_CONNECTIONS
from lbdns_tools.lab.programs.balancer_setup import LEAST_CONNECTIONS, PASSED_THROUGH, TERMINATED, BalancerSetup

PEM = Path("/lab/certificate.pem")


@pytest.fixture
def hosts() -> list[LabMachine]:
    farm = LabFarm((WebHost("bilbo", 0.5), WebHost("frodo", 0.5)))
    return [machine for machine in machines(farm) if machine.kind == "web"]


def lines(setup: BalancerSetup, hosts: list[LabMachine]) -> list[str]:
    text = CONFIGURATIONS[setup.program](setup, hosts, Path("/lab/nginx"), PEM)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("name", PROXIES)
def test_the_connection_limit_is_raised(name: str, hosts: list[LabMachine]) -> None:
    text = "\n".join(lines(BalancerSetup(name), hosts))
    assert str(MOST_CONNECTIONS) in text or str(2 * MOST_CONNECTIONS) in text
    assert "{" not in text or name == "nginx"
    assert str(PEM) not in text, "there is no TLS unless it is asked for"
    assert "443" not in text


def test_haproxy(hosts: list[LabMachine]) -> None:
    plain = lines(BalancerSetup("haproxy"), hosts)
    assert {"mode http", "option http-server-close", "bind :::80 v4v6", "balance roundrobin"} <= set(plain)
    assert "server bilbo 198.18.1.1:80 check" in plain
    assert "balance leastconn" in lines(BalancerSetup("haproxy", LEAST_CONNECTIONS), hosts)
    assert "server frodo 198.18.1.2:80 check maxconn 6" in lines(BalancerSetup("haproxy", most_per_host=6), hosts)


def test_haproxy_with_tls(hosts: list[LabMachine]) -> None:
    terminated = lines(BalancerSetup("haproxy", tls=TERMINATED), hosts)
    assert {f"bind :::443 v4v6 ssl crt {PEM}", "mode http", "server bilbo 198.18.1.1:80 check"} <= set(terminated)
    passed = lines(BalancerSetup("haproxy", tls=PASSED_THROUGH), hosts)
    assert {"bind :::443 v4v6", "mode tcp", "server bilbo 198.18.1.1:443 check"} <= set(passed)
    assert "option http-server-close" not in passed


def test_nginx(hosts: list[LabMachine]) -> None:
    plain = lines(BalancerSetup("nginx"), hosts)
    assert {"server 198.18.1.1:80;", "server 198.18.1.2:80;", "listen 80 backlog=4096;"} <= set(plain)
    assert not any(word in line for line in plain for word in ("keepalive", "least_conn", "proxy_http_version", "ssl"))
    assert "least_conn;" in lines(BalancerSetup("nginx", LEAST_CONNECTIONS), hosts)
    kept = lines(BalancerSetup("nginx", keeps_connections=True), hosts)
    assert {"keepalive 16;", "proxy_http_version 1.1;", 'proxy_set_header Connection "";'} <= set(kept)
    assert kept.index("keepalive 16;") > kept.index("server 198.18.1.2:80;"), "nginx wants it after the method"
    secure = lines(BalancerSetup("nginx", tls=TERMINATED), hosts)
    assert {"listen [::]:443 ssl backlog=4096;", f"ssl_certificate {PEM};", "server 198.18.1.1:80;"} <= set(secure)


def test_pound(hosts: list[LabMachine]) -> None:
    plain = lines(BalancerSetup("pound"), hosts)
    opened = [line for line in plain if line in ("ListenHTTP", "Service", "Backend")]
    assert opened == ["ListenHTTP", "Service", "Backend", "Backend"]
    assert [line for line in plain if line == "End"] == ["End"] * len(opened)
    assert "Balancer iwrr" in plain
    secure = lines(BalancerSetup("pound", tls=TERMINATED), hosts)
    at = secure.index("ListenHTTPS")
    assert secure[at + 1 : at + 4] == ["Address ::", "Port 443", f'Cert "{PEM}"']
    assert secure.count("Port 80") == 2
