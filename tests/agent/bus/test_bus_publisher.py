"""Tests of publishing reports to fake NATS servers that refuse, stall, stop and return."""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lbdns_agent.bus import bus_publisher, reconnect_pause
from lbdns_agent.bus.bus_options import BusOptions
from lbdns_agent.bus.bus_publisher import BusPublisher
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_shared.bus_url import parse_bus_url
from lbdns_shared.errors import ConfigError
from lbdns_shared.keys import new_master_key
from tests.agent.agents import NAME, QUIET, agent, receiver
from tests.agent.bus.fake_nats import FakeNats
from tests.agent.waiting import until

SUBJECT = "lbdns.report.web.gandalf"


class Bench:
    """A publisher and its servers, which all run in the test's thread."""

    def __init__(self, *servers: FakeNats) -> None:
        self.servers = servers
        self.tasks = SensorTasks()
        self.publisher = self.connect(*(f"nats://gandalf:word@127.0.0.1:{server.port}" for server in servers))

    def connect(self, *urls: str) -> BusPublisher:
        self.tasks.services.clear()
        self.publisher = BusPublisher(BusOptions(tuple(map(parse_bus_url, urls))), SUBJECT, "test")
        self.tasks.services.append(self.publisher)
        return self.publisher

    def until(self, condition: Callable[[], object]) -> None:
        """Run everything until the condition holds."""

        def look() -> object:
            self.tasks.wait(time.monotonic() + 0.001)
            for server in self.servers:
                server.step()
            return condition()

        until(look)

    def is_quiet(self) -> bool:
        """Return whether the server has answered the last PING."""
        connection = self.publisher._connection
        return connection is not None and not connection.session.awaits_pong

    def has(self, *payloads: bytes, server: int = 0) -> bool:
        return self.servers[server].payloads == list(payloads)


@pytest.fixture
def nats() -> Iterator[FakeNats]:
    server = FakeNats()
    yield server
    server.close()


@pytest.fixture
def bench(nats: FakeNats, caplog: pytest.LogCaptureFixture) -> Iterator[Bench]:
    caplog.set_level(logging.INFO, "lbdns.agent")
    found = Bench(nats)
    yield found
    found.publisher.close()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AFTER_LOSS", "FIRST", "LONGEST", "REFUSED"):
        monkeypatch.setattr(reconnect_pause, name, 0.002)


def test_reports_arrive(bench: Bench, nats: FakeNats, caplog: pytest.LogCaptureFixture) -> None:
    bench.publisher.publish(b"one")
    bench.until(lambda: bench.has(b"one"))
    bench.publisher.publish(b"two")
    bench.until(lambda: bench.has(b"one", b"two"))
    bench.until(lambda: caplog.messages)
    assert caplog.messages == [f"bus nats://127.0.0.1:{nats.port} accepts reports, with subject {SUBJECT}"]
    assert b'"user": "gandalf"' in nats.lines[0]
    assert f"PUB {SUBJECT} 3".encode() in nats.lines


def test_only_the_newest_report_waits_for_a_connection(bench: Bench) -> None:
    for payload in (b"one", b"two", b"three"):
        bench.publisher.publish(payload)
    bench.until(lambda: bench.has(b"three"))


def test_an_old_report_is_not_sent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_publisher, "LONGEST_KEPT", -1.0)
    bench.publisher.publish(b"old")
    bench.until(lambda: bench.publisher._newest is None)
    monkeypatch.setattr(bus_publisher, "LONGEST_KEPT", 10.0)
    bench.publisher.publish(b"new")
    bench.until(lambda: bench.has(b"new"))


def test_a_lost_connection(bench: Bench, nats: FakeNats, caplog: pytest.LogCaptureFixture) -> None:
    bench.publisher.publish(b"one")
    bench.until(lambda: "accepts reports" in caplog.text)
    nats.disconnect()
    bench.until(lambda: nats.connections == 2)
    bench.publisher.publish(b"two")
    bench.until(lambda: bench.has(b"two"))
    bench.until(lambda: caplog.text.count("accepts reports") == 2)
    assert [text for text in caplog.messages if "keeps trying" in text] == [
        f"bus nats://127.0.0.1:{nats.port}: the server closed the connection; the agent keeps trying"
    ]


def test_a_report_that_the_server_may_not_have_passed_on_is_sent_again(bench: Bench, nats: FakeNats) -> None:
    bench.publisher.publish(b"one")
    bench.until(lambda: bench.has(b"one") and bench.is_quiet())
    nats.answers_pings = False
    bench.publisher.publish(b"two")
    bench.until(lambda: bench.has(b"one", b"two"))
    nats.disconnect()
    nats.answers_pings = True
    bench.until(lambda: nats.connections == 2 and bench.has(b"two") and bench.is_quiet())
    nats.disconnect()
    bench.until(lambda: nats.connections == 3 and bench.is_quiet())
    assert bench.has(), "the report has been confirmed"


def test_refused_reports_are_logged_once(
    bench: Bench, nats: FakeNats, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_publisher, "PING_INTERVAL", 0.0)
    nats.refuses_reports = True
    for payload in (b"1", b"2", b"3", b"4"):
        bench.publisher.publish(payload)
        bench.until(lambda: nats.payloads[-1:] == [payload] and bench.is_quiet())  # noqa: B023  called at once
    assert len(caplog.messages) == 1
    nats.refuses_reports = False
    bench.publisher.publish(b"accepted")
    bench.until(lambda: "accepts reports" in caplog.text)
    assert (
        caplog.text.count("refuses reports with subject lbdns.report.web.gandalf; check this user's permissions") == 1
    )
    assert nats.connections == 1


def test_refused_credentials_are_logged_once(bench: Bench, nats: FakeNats, caplog: pytest.LogCaptureFixture) -> None:
    nats.refuses_users = True
    bench.until(lambda: nats.connections == 4)
    nats.refuses_users = False
    bench.publisher.publish(b"one")
    bench.until(lambda: "accepts reports" in caplog.text)
    assert caplog.text.count("the server refuses the credentials (Authorization Violation)") == 1


@pytest.mark.parametrize("name", ["LONGEST_START", "LONGEST_REPLY"])
def test_a_silent_server_is_given_up(
    bench: Bench, nats: FakeNats, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It stops answering before or after it has accepted the agent."""
    monkeypatch.setattr(bus_publisher, name, 0.02)
    monkeypatch.setattr(bus_publisher, "PING_INTERVAL", 0.0)
    if name == "LONGEST_REPLY":
        bench.publisher.publish(b"one")
        bench.until(lambda: bench.has(b"one"))
    nats.answers_pings = False
    bench.publisher.publish(b"two")
    bench.until(lambda: nats.connections >= 3 or (name == "LONGEST_REPLY" and nats.connections >= 2))
    fault = "did not accept the connection within" if name == "LONGEST_START" else "has not replied for"
    assert fault in caplog.text


def test_a_server_that_does_not_read_never_blocks_the_agent(bench: Bench, nats: FakeNats) -> None:
    bench.publisher.publish(b"one")
    bench.until(lambda: bench.has(b"one"))
    for _ in range(20_000):  # more than the socket's buffers hold; the server reads nothing meanwhile
        bench.publisher.publish(b"x" * 1200)
    assert len(bench.publisher._connection.session.outgoing if bench.publisher._connection else b"") <= 16 * 1024
    bench.publisher.publish(b"newest")
    bench.until(lambda: nats.payloads[-1:] == [b"newest"])
    assert all(payload in (b"one", b"x" * 1200, b"newest") for payload in nats.payloads)


def test_the_next_server_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    first, second = FakeNats(), FakeNats()
    bench = Bench(first, second)
    first.close()
    bench.servers = (second,)
    bench.publisher.publish(b"one")
    bench.until(lambda: bench.has(b"one"))
    bench.publisher.close()
    second.close()
    assert caplog.text.count("Connection refused") <= 1


def test_the_last_report_is_confirmed_before_the_end(bench: Bench, nats: FakeNats) -> None:
    bench.publisher.publish(b"one")
    bench.until(lambda: bench.has(b"one"))
    bench.publisher.publish(b"bye")
    connection = bench.publisher._connection
    assert connection is not None
    poll = select.poll

    class SteppingPoll:
        """Lets the server work whenever the publisher waits."""

        def __init__(self) -> None:
            self._poll = poll()
            self.register = self._poll.register

        def poll(self, longest: float) -> list[tuple[int, int]]:
            nats.step()
            found: list[tuple[int, int]] = self._poll.poll(min(longest, 10.0))
            return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(select, "poll", SteppingPoll)
        bench.publisher.finish(60.0)
    assert bench.has(b"one", b"bye")
    assert not connection.session.has_unconfirmed
    bench.publisher.serve(())
    assert list(bench.publisher.waits()) == [], "a closed publisher stays closed"


def test_without_a_connection_the_end_does_not_wait(bench: Bench) -> None:
    bench.publisher.publish(b"bye")
    began = time.monotonic()
    bench.publisher.finish(600.0)
    assert time.monotonic() - began < 300


def test_unusable_files(tmp_path: Path) -> None:
    server = parse_bus_url("nats://127.0.0.1")
    with pytest.raises(ConfigError, match="cannot read the password file"):
        BusPublisher(BusOptions((server,), tmp_path / "none"), SUBJECT, "test")
    with pytest.raises(ConfigError, match=r"--bus-tls-ca: .*none: No such file"):
        BusPublisher(BusOptions((server,), None, tmp_path / "none"), SUBJECT, "test")
    empty = tmp_path / "empty"
    empty.write_text("no certificate")
    with pytest.raises(ConfigError, match="contains no certificate"):
        BusPublisher(BusOptions((server,), None, empty), SUBJECT, "test")


def test_a_stalled_server_does_not_delay_reports_over_udp(tmp_path: Path) -> None:
    """The kernel accepts the connection, but no program reads from it or writes to it."""
    key = tmp_path / "master.key"
    key.write_text(new_master_key().line() + "\n")
    key.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as stalled, receiver() as collector:
        port = stalled.getsockname()[1]
        options = ("--collector", collector.where, "--interval", "0.1", "--key-file", str(key), *QUIET)
        with agent(tmp_path, *options, "--bus", f"nats://127.0.0.1:{port}") as running:
            for _ in range(5):
                assert NAME.encode() in collector.socket.recv(2000)
            assert running.stop() == 0
