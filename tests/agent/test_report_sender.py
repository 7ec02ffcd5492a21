"""Tests of sending reports to open ports, to closed ports, and to names whose addresses change."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator

import pytest

from lbdns_agent import report_sender
from lbdns_agent.background_resolver import Address, BackgroundResolver
from lbdns_agent.report_sender import CollectorSocket, ReportSender
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.free_ports import free_port
from tests.agent.waiting import PATIENCE, until
from tests.needs import needs


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def receiver(host: str = "127.0.0.1", port: int = 0) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as opened:
        opened.bind((host, port))
        opened.settimeout(PATIENCE)
        yield opened


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "lbdns.agent")
    return caplog


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=needs(ipv6=True))])
def test_a_report_arrives(host: str) -> None:
    with receiver(host) as opened:
        collector = CollectorSocket(Endpoint(host, opened.getsockname()[1]))
        collector.send(b"one")
        collector.send(b"two")
        assert [opened.recv(100), opened.recv(100)] == [b"one", b"two"]
        collector.close()


def test_all_collectors_get_every_report() -> None:
    with receiver() as one, receiver() as two:
        collectors = ReportSender([Endpoint(*opened.getsockname()) for opened in (one, two)])
        collectors.send(b"report")
        assert (one.recv(100), two.recv(100)) == (b"report", b"report")
        collectors.close()


def test_down_first_and_up_later_is_said_once_each_and_loses_only_what_was_sent_before(
    log: pytest.LogCaptureFixture,
) -> None:
    port, clock = free_port(), Clock()
    collector = CollectorSocket(Endpoint("127.0.0.1", port), recovery_time=2.0, clock=clock)
    for _ in range(5):
        collector.send(b"lost")
        clock.now += 1.0
    assert log.messages == [f"collector 127.0.0.1:{port} can't be reached: Connection refused; the agent keeps trying"]
    with receiver(port=port) as opened:
        for number in range(4):
            collector.send(b"%d" % number)
            clock.now += 1.0
        assert [opened.recv(100) for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    assert log.messages[1:] == [f"collector 127.0.0.1:{port} can be reached again"]
    collector.close()


def test_a_router_that_reports_only_some_errors_does_not_make_it_flap(log: pytest.LogCaptureFixture) -> None:
    port, clock = free_port(), Clock()
    collector = CollectorSocket(Endpoint("127.0.0.1", port), recovery_time=2.0, clock=clock)
    for _ in range(20):
        collector.send(b"lost")
        assert collector._socket is not None
        collector._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # one error in two is never heard of
        clock.now += 0.3
        collector.send(b"lost")
        clock.now += 0.3
        collector.send(b"lost")
        clock.now += 0.3
    assert len(log.messages) == 1


def test_a_network_that_is_not_there(log: pytest.LogCaptureFixture) -> None:
    collector = CollectorSocket(Endpoint("255.255.255.255", 7777))  # broadcasting is not permitted: fails at once
    for _ in range(3):
        collector.send(b"lost")
    assert len(log.messages) == 1
    assert log.messages[0].startswith("collector 255.255.255.255:7777 can't be reached: ")


def named(addresses: tuple[Address, ...] | None, error: str = "") -> CollectorSocket:
    """Return the socket for a collector whose name resolves to these addresses."""
    collector = CollectorSocket(Endpoint("127.0.0.1", 7777))

    def nothing(endpoint: Endpoint) -> list[Address]:
        return []

    resolver = BackgroundResolver(Endpoint("collector", 7777), nothing)
    resolver.wait_for_first(PATIENCE)
    resolver._addresses, resolver.error = addresses, error
    collector.endpoint, collector.resolver = resolver.endpoint, resolver
    return collector


def at(opened: socket.socket) -> Address:
    return (socket.AF_INET, opened.getsockname())


def test_of_several_addresses_the_first_that_answers_no_error(log: pytest.LogCaptureFixture) -> None:
    with receiver() as opened:
        collector = named(((socket.AF_INET, ("127.0.0.1", free_port())), at(opened)))
        for number in range(4):
            collector.send(b"%d" % number)
        assert [opened.recv(100) for _ in range(3)] == [b"1", b"2", b"3"], "the first went to nobody"
    assert log.messages == []
    collector.close()


def test_when_no_address_answers_it_is_said(log: pytest.LogCaptureFixture) -> None:
    places = tuple((socket.AF_INET, ("127.0.0.1", free_port())) for _ in range(3))
    collector = named(places)
    for _ in range(12):
        collector.send(b"lost")
    assert log.messages == ["collector collector:7777 can't be reached: Connection refused; the agent keeps trying"]
    collector.close()


def test_a_name_that_moves_is_followed(log: pytest.LogCaptureFixture) -> None:
    with receiver() as old, receiver() as new:
        collector = named((at(old),))
        collector.send(b"one")
        collector.resolver._addresses = (at(new),)
        collector.send(b"two")
        assert (old.recv(100), new.recv(100)) == (b"one", b"two")
    assert log.messages == []
    collector.close()


def test_an_address_that_still_belongs_to_the_name_is_kept() -> None:
    with receiver() as one, receiver() as two:
        collector = named((at(one),))
        collector.send(b"one")
        collector.resolver._addresses = (at(two), at(one))
        collector.send(b"two")
        assert [one.recv(100), one.recv(100)] == [b"one", b"two"]
    collector.close()


def test_a_name_without_an_address_and_one_not_looked_up_yet(log: pytest.LogCaptureFixture) -> None:
    named(None).send(b"lost")
    assert log.messages == [], "nobody knows yet"
    collector = named((), "Name or service not known")
    collector.send(b"lost")
    collector.send(b"lost")
    assert log.messages == [
        "collector collector:7777 can't be reached: Name or service not known; the agent keeps trying"
    ]


def test_the_resolver_keeps_what_it_knows_when_a_look_up_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbdns_agent.background_resolver.SHORTEST_INTERVAL", 0.0)
    good: list[Address] = [(socket.AF_INET, ("127.0.0.9", 7777))]
    answers: list[list[Address] | Exception] = [good, socket.gaierror(-3, "try again"), UnicodeError("label"), good]
    looked: list[int] = []

    def look_up_addresses(endpoint: Endpoint) -> list[Address]:
        looked.append(1)
        answer = answers[min(len(looked), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    resolver = BackgroundResolver(Endpoint("name", 7777), look_up_addresses)
    resolver.wait_for_first(PATIENCE)
    for number, error in enumerate(["", "try again", "label", ""], 1):
        until(lambda number=number, error=error: len(looked) >= number and resolver.error == error)  # type: ignore[misc]
        assert resolver.addresses == tuple(good)
        resolver.refresh()


def test_a_name_server_that_takes_its_time_holds_up_nobody() -> None:
    # The resolver's thread outlives this test, so it must not wait for a descriptor: later tests use its number again
    release = threading.Event()

    def slow(endpoint: Endpoint) -> list[Address]:
        release.wait()
        return []

    resolver = BackgroundResolver(Endpoint("slow", 7777), slow)
    resolver.wait_for_first(0.01)
    assert resolver.addresses is None
    release.set()


def test_waiting_for_names_is_bounded() -> None:
    with receiver() as opened:
        collectors = ReportSender([Endpoint("localhost", opened.getsockname()[1]), Endpoint("127.0.0.1", 1)])
        collectors.wait_for_names(PATIENCE)
        resolver = collectors._collectors[0].resolver
        assert resolver.addresses
        collectors.resolve_again()
        collectors.close()


def test_calm_is_longer_than_a_report_interval() -> None:
    assert report_sender.RECOVERY_TIME >= 1.0
