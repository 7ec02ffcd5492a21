"""Tests of the DNS sockets: errors on opening, distribution among workers, changes, rollback, and closing."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lbdns.sockets import dns_sockets
from lbdns.sockets.binding import bound_endpoint
from lbdns.sockets.dns_sockets import SocketChange, SocketGroups, open_pair, open_tcp, open_udp
from lbdns.sockets.inherited_sockets import InheritedSocket
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import ListenError
from tests.needs import needs, program

ANY = Endpoint("127.0.0.1", 0)
UDP, TCP = socket.SOCK_DGRAM, socket.SOCK_STREAM


@contextmanager
def opened(workers: int, *endpoints: Endpoint) -> Iterator[SocketGroups]:
    sockets = SocketGroups()
    sockets.prepare(endpoints, workers).commit()
    try:
        yield sockets
    finally:
        sockets.close()
        assert sockets.endpoints == []


def free_endpoint() -> Endpoint:
    """Return an endpoint that was free a moment ago for both UDP and TCP."""
    udp, tcp = open_pair(ANY)
    with udp, tcp:
        return bound_endpoint(udp)


def is_free(endpoint: Endpoint) -> bool:
    try:
        for sock in open_pair(endpoint):
            sock.close()
    except ListenError:
        return False
    return True


def kinds(change: SocketChange, workers: int) -> list[list[socket.SocketKind]]:
    return [sorted(sock.type for sock in hand.values()) for hand in change.dealt(workers)]


def test_udp_and_tcp_share_a_port() -> None:
    with opened(1, ANY) as sockets:
        (hand,) = sockets.prepare([ANY], 1).dealt(1)
        assert {sock.type for sock in hand.values()} == {UDP, TCP}
        assert {bound_endpoint(sock) for sock in hand.values()} == set(sockets.endpoints)


def test_a_port_that_only_udp_can_have_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Endpoint] = []

    def taken_twice(endpoint: Endpoint) -> socket.socket:
        asked.append(endpoint)
        if len(asked) <= 2:
            with open_tcp(endpoint):
                return open_tcp(endpoint)
        return open_tcp(endpoint)

    monkeypatch.setattr(dns_sockets, "open_tcp", taken_twice)
    with opened(1, ANY):
        assert len(asked) == 3


@pytest.mark.parametrize("workers", [2, 3])
def test_each_worker_has_sockets_of_its_own(workers: int) -> None:
    with opened(workers, ANY) as sockets:
        change = sockets.prepare([ANY], workers)
        assert kinds(change, workers) == [[TCP, UDP]] * workers
        assert len({number for hand in change.dealt(workers) for number in hand}) == 2 * workers
        (here,) = sockets.endpoints
        assert {bound_endpoint(sock) for hand in change.dealt(workers) for sock in hand.values()} == {here}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("opens", [open_udp, open_tcp])
def test_a_second_server_gets_an_error_and_not_half_of_the_queries(workers: int, opens: object) -> None:
    with opened(workers, ANY) as sockets:
        assert callable(opens)
        with pytest.raises(ListenError, match="in use"):
            opens(sockets.endpoints[0])
        with pytest.raises(ListenError, match="in use"):
            SocketGroups().prepare(sockets.endpoints, workers)


def test_changes_open_the_new_and_close_the_old() -> None:
    one, two, three = (free_endpoint() for _ in range(3))
    with opened(2, one, two) as sockets:
        before = {g.sock for g in sockets.inheritable() if g.asked == two}
        change = sockets.prepare([two, three, two], 2)
        assert sockets.endpoints == [one, two], "nothing is closed yet"
        change.commit()
        assert sockets.endpoints == [two, three]
        assert {g.sock for g in sockets.inheritable() if g.asked == two} == before
        assert [is_free(endpoint) for endpoint in (one, two, three)] == [True, False, False]


def test_what_can_not_be_had_changes_nothing() -> None:
    one, two = free_endpoint(), free_endpoint()
    with opened(1, one) as sockets:
        with pytest.raises(ListenError, match=r"192\.0\.2\.1:5300"):
            sockets.prepare([two, Endpoint("192.0.2.1", 5300)], 1)
        assert sockets.endpoints == [one]
        assert [is_free(endpoint) for endpoint in (one, two)] == [False, True]


def test_a_change_that_is_dropped_closes_what_it_opened_and_nothing_else() -> None:
    one, two = free_endpoint(), free_endpoint()
    with opened(2, one) as sockets:
        sockets.prepare([two], 2).rollback()
        assert sockets.endpoints == [one]
        assert [is_free(endpoint) for endpoint in (one, two)] == [False, True]


@pytest.mark.parametrize(("now", "then"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0")])
def test_going_over_to_an_address_that_overlaps_needs_a_restart(now: str, then: str) -> None:
    port = free_endpoint().port
    with opened(1, Endpoint(now, port)) as sockets:
        with pytest.raises(ListenError, match="needs a restart") as caught:
            sockets.prepare([Endpoint(then, port)], 1)
        assert "another program" not in str(caught.value)
        assert sockets.endpoints == [Endpoint(now, port)]


# Sockets that were given


def handed(sockets: SocketGroups) -> list[InheritedSocket]:
    """Return duplicates of the sockets, as a successor process receives them."""
    return [InheritedSocket(g.purpose, g.asked, g.sock.dup()) for g in sockets.inheritable()]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (4, 3), (2, 2)])
def test_every_socket_that_is_given_is_answered_on_whatever_the_number_of_workers(before: int, after: int) -> None:
    with opened(before, ANY) as old:
        new = SocketGroups()
        change = new.prepare([ANY], after, handed(old))
        dealt = change.dealt(after)
        assert all({UDP, TCP} <= {sock.type for sock in hand.values()} for hand in dealt)
        assert len({number for hand in dealt for number in hand}) == 2 * max(before, after)
        change.commit()
        later = new.prepare([ANY], after)
        udp = [sock for hand in later.dealt(after) for sock in hand.values() if sock.type == UDP]
        assert len(udp) == after, "each has one of its own in the end"
        tcp = {sock for hand in later.dealt(after) for sock in hand.values() if sock.type == TCP}
        assert len(tcp) == max(before, after), "connections wait in those that are too many"
        later.commit()
        new.close()


def test_an_address_that_is_no_longer_wanted_is_answered_on_until_the_next_change() -> None:
    one, two = free_endpoint(), free_endpoint()
    with opened(2, one, two) as old:
        new = SocketGroups()
        change = new.prepare([two], 2, handed(old))
        assert {bound_endpoint(sock) for hand in change.dealt(2) for sock in hand.values()} == {one, two}
        change.commit()
        new.prepare([two], 2).commit()
        assert new.endpoints == [two]
        new.close()


@pytest.mark.parametrize("given", [UDP, TCP])
def test_what_is_missing_of_an_address_is_opened(given: socket.SocketKind) -> None:
    udp, tcp = open_pair(ANY)
    here = bound_endpoint(udp)
    (tcp if given == UDP else udp).close()
    sockets = SocketGroups()
    change = sockets.prepare([here], 2, [InheritedSocket("dns", here, udp if given == UDP else tcp)])
    assert kinds(change, 2) == [[TCP, UDP]] * 2
    change.rollback()
    assert is_free(here)


@needs(root=True)
def test_workers_share_a_socket_when_no_other_can_be_had() -> None:
    udp, tcp = open_pair(ANY)
    for sock in (udp, tcp):
        os.fchown(sock.fileno(), 1, 1)  # opened by another user: the kernel lets nobody else join it (SO_REUSEPORT)
    here = bound_endpoint(udp)
    sockets = SocketGroups()
    change = sockets.prepare([here], 2, [InheritedSocket("dns", here, udp), InheritedSocket("dns", here, tcp)])
    one, two = change.dealt(2)
    assert one == two
    assert {sock.type for sock in one.values()} == {UDP, TCP}
    change.rollback()


def test_a_dropped_change_closes_given_sockets_too() -> None:
    with opened(1, ANY) as old:
        given = handed(old)
        with pytest.raises(ListenError):
            SocketGroups().prepare([ANY, Endpoint("192.0.2.1", 5300)], 1, given)
        for g in given:
            with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
                g.sock.getsockname()
        assert not is_free(old.endpoints[0])


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
    assert str(caught.value).startswith(f"DNS over {protocol}: {taken}: the port is in use; 'ss -l")
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
    assert done.stderr.startswith(f"DNS over {protocol}: 0.0.0.0:53: not permitted; ports below 1024 require root")


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
