"""Opening DNS sockets, and the errors if that fails."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.dns_sockets import open_tcp, open_udp
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError
from tests.needs import needs, program

Open = Callable[[Endpoint], socket.socket]
BOTH = pytest.mark.parametrize(("opens", "protocol"), [(open_udp, "UDP"), (open_tcp, "TCP")], ids=["UDP", "TCP"])


@BOTH
def test_port_zero_is_any_port(opens: Open, protocol: str) -> None:
    with opens(Endpoint("127.0.0.1", 0)) as sock:
        endpoint = bound_endpoint(sock)
        assert endpoint.host == "127.0.0.1"
        assert endpoint.port > 0
        assert not sock.getblocking()
        assert sock.type == {"UDP": socket.SOCK_DGRAM, "TCP": socket.SOCK_STREAM}[protocol]


@needs(ipv6=True)
@BOTH
def test_ipv6_leaves_ipv4_alone(opens: Open, protocol: str) -> None:
    with opens(Endpoint("::", 0)) as sock, opens(Endpoint("0.0.0.0", bound_endpoint(sock).port)) as other:
        assert bound_endpoint(other).port == bound_endpoint(sock).port


@BOTH
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_taken_port(opens: Open, protocol: str, host: str) -> None:
    with opens(Endpoint("127.0.0.1", 0)) as sock:
        taken = Endpoint(host, bound_endpoint(sock).port)
        with pytest.raises(ListenError) as caught:
            opens(taken)
    assert str(caught.value).startswith(f"DNS over {protocol}: {taken}: taken. 'ss -l")
    assert f"sport = :{taken.port}" in str(caught.value)
    assert caught.value.exit_status == 1


@BOTH
def test_an_address_of_another_machine(opens: Open, protocol: str) -> None:
    with pytest.raises(ListenError, match=rf"DNS over {protocol}: 192\.0\.2\.1:5300: not an address of this machine"):
        opens(Endpoint("192.0.2.1", 5300))


@BOTH
def test_an_interface_that_is_not_there(opens: Open, protocol: str) -> None:
    with pytest.raises(ListenError) as caught:
        opens(Endpoint("fe80::1%nosuch0", 5300))
    assert "Unknown error" not in str(caught.value)
    assert f"DNS over {protocol}: [fe80::1%nosuch0]:5300: this machine has no such interface" in str(caught.value)


@needs(namespaces=True, programs=("unshare",))
@BOTH
def test_a_port_that_needs_root(opens: Open, protocol: str) -> None:
    code = (
        "import os, sys; from lbdns_shared.endpoint import Endpoint; from lbdns_shared.errors import ListenError\n"
        f"from lbdns.sockets.dns_sockets import {opens.__name__} as opens\n"
        "'localhost'.encode('idna'); os.setuid(65534)\n"  # an interpreter in root's home is closed to others
        "try: opens(Endpoint('0.0.0.0', 53))\n"
        "except ListenError as error: sys.exit(str(error))"
    )
    # A process of its own, as root can't be had back; a namespace of its own, where nobody has changed the limit
    done = subprocess.run(
        [program("unshare"), "--net", sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.startswith(f"DNS over {protocol}: 0.0.0.0:53: not permitted; ports below 1024 need root")


def test_a_listening_socket_is_left_for_the_next_start() -> None:
    # A connection that was closed from our side stays in TIME_WAIT; the port can be had again nevertheless
    with open_tcp(Endpoint("127.0.0.1", 0)) as sock:
        endpoint = bound_endpoint(sock)
        with socket.create_connection((endpoint.host, endpoint.port)) as client:
            sock.setblocking(True)
            accepted, _ = sock.accept()
            accepted.close()
            assert client.recv(1) == b""
    open_tcp(endpoint).close()
