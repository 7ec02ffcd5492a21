"""Tests of real pings on the loopback and in namespaces: with a raw socket, a ping socket, or neither permitted."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from lbdns_agent.gateway import gateway_pinger
from lbdns_agent.gateway.default_route import Gateway
from lbdns_agent.gateway.gateway_pinger import GatewayPinger
from lbdns_agent.missing_values import MissingValueError
from lbdns_shared.icmp_echo import HOW_TO_ALLOW
from tests.agent.waiting import run_to_end
from tests.needs import needs

LOOPBACK = Gateway("127.0.0.1")
#: In a namespace of its own: bring the loopback up, allow ping sockets to a range of groups, and ping.
SCRIPT = """
import os, socket, sys
from pathlib import Path
from tests.agent.waiting import run_to_end
from lbdns_agent.gateway.gateway_pinger import GatewayPinger
from lbdns_agent.gateway.default_route import Gateway
Path("/proc/sys/net/ipv4/ping_group_range").write_text(sys.argv[1])
if sys.argv[3] == "user":
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
pinger = GatewayPinger(lambda: Gateway(sys.argv[2]))
try:
    for _ in range(3):
        print("ok" if 0 < run_to_end(pinger.ping()) < 60_000 else "nonsense", pinger._socket.type.name)
except Exception as error:
    print(type(error).__name__, error)
"""


def in_namespace(group_range: str, address: str, user: str) -> list[str]:
    ip = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")
    command = f'{ip} link set lo up && exec "$0" "$@"'
    run = subprocess.run(
        ["unshare", "--net", "sh", "-c", command, sys.executable, "-c", SCRIPT, group_range, address, user],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.stderr == ""
    return run.stdout.splitlines()


@needs(root=True)
@pytest.mark.parametrize("address", ["127.0.0.1", pytest.param("::1", marks=needs(ipv6=True))])
def test_a_round_trip(address: str) -> None:
    pinger = GatewayPinger(lambda: Gateway(address))
    trips = [run_to_end(pinger.ping()) for _ in range(20)]
    assert all(0 < trip < 60_000 for trip in trips)
    pinger.close()


@needs(programs=("ip",), namespaces=True)
@pytest.mark.parametrize("address", ["127.0.0.1", pytest.param("::1", marks=needs(ipv6=True))])
@pytest.mark.parametrize(
    ("group_range", "user", "kind"),
    [("0 2147483647", "user", "SOCK_DGRAM"), ("0 2147483647", "root", "SOCK_DGRAM"), ("1 0", "root", "SOCK_RAW")],
)
def test_a_ping_socket_where_allowed_else_a_raw_one(group_range: str, address: str, user: str, kind: str) -> None:
    assert in_namespace(group_range, address, user) == [f"ok {kind}"] * 3


@needs(programs=("ip",), namespaces=True)
def test_without_permission_it_says_how_to_allow_it() -> None:
    (line,) = in_namespace("1 0", "127.0.0.1", "user")
    assert line == f"MissingValueError {HOW_TO_ALLOW}"
    assert "net.ipv4.ping_group_range" in line
    assert "CAP_NET_RAW" in line


@needs(programs=("ip",), namespaces=True)
def test_a_network_that_is_not_there() -> None:
    (line,) = in_namespace("1 0", "192.0.2.1", "root")
    assert line == "MissingValueError gateway 192.0.2.1: Network is unreachable"


@needs(root=True)
def test_two_at_once_don_t_take_each_other_s_echo() -> None:
    one, two = GatewayPinger(lambda: LOOPBACK), GatewayPinger(lambda: LOOPBACK)
    first, second = one.ping(), two.ping()
    next(first)
    next(second)
    assert run_to_end(second) > 0
    assert run_to_end(first) > 0
    one.close()
    two.close()


@needs(root=True)
def test_no_answer_is_told_and_the_gateway_looked_up_anew() -> None:
    looks = []

    def find() -> Gateway:
        looks.append(1)
        return LOOPBACK

    pinger = GatewayPinger(find)
    steps = pinger.ping()
    next(steps)
    with pytest.raises(MissingValueError, match=r"no reply from the gateway 127\.0\.0\.1 within 1 s"):
        steps.throw(TimeoutError())
    assert run_to_end(pinger.ping()) > 0, "the late echo of the one before is none"
    run_to_end(pinger.ping())
    assert len(looks) == 2
    pinger.close()


@needs(root=True)
def test_another_gateway_is_pinged_once_the_routes_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_pinger, "ROUTE_INTERVAL", 0.0)
    gateways = [LOOPBACK, Gateway("127.0.0.2"), Gateway("127.0.0.2")]
    pinger = GatewayPinger(lambda: gateways.pop(0))
    peers = []
    for _ in range(3):
        run_to_end(pinger.ping())
        peers.append(str(pinger._gateway))
    assert peers == ["127.0.0.1", "127.0.0.2", "127.0.0.2"]
    pinger.close()


def test_no_gateway() -> None:
    with pytest.raises(MissingValueError, match="no default gateway"):
        run_to_end(GatewayPinger(lambda: None).ping())


@pytest.mark.parametrize(
    ("ancillary", "arrival"),
    [
        ([], float("inf")),
        ([(1, 35, gateway_pinger._TIMESTAMP.pack(1_700_000_000, 250_000_000))], 1_700_000_000.25),
        ([(1, 35, b"short")], float("inf")),
        ([(0, 35, gateway_pinger._TIMESTAMP.pack(1, 0))], float("inf")),
    ],
)
def test_when_the_kernel_received_a_packet(ancillary: list[tuple[int, int, bytes]], arrival: float) -> None:
    assert gateway_pinger._arrival(ancillary) == arrival
