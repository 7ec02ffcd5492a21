"""Tests of report batches: a socket that is read natively accepts and rejects the same as one that Python reads."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.events.event_log import EventLog
from lbdns_collector.reports import report_socket
from lbdns_collector.reports.bus_status import BusStatus
from lbdns_collector.reports.report_reader import PYTHON_READER, NativeReportReader, ReportReader
from lbdns_collector.reports.report_socket import BATCH, ReportSocket
from lbdns_collector.reports.report_table import ReportTable
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.keys import MasterKey
from lbdns_shared.report import MAX_DATAGRAM, open_envelope
from tests.collector.collector_fixtures import HOSTS, IDLE, KEY, OTHER_KEY, WALL, datagram
from tests.collector.report_tables import NOW, make
from tests.needs import needs

pytestmark = needs(native=True)

LOADS = [{}, IDLE, {**IDLE, "capacity_used": 5.0, "requests_total": 9.0}, {"cpu_idle": 5.0, "colour": 1.0}]


class SteppingClock:
    """A clock that stands still unless a test sets it."""

    def __init__(self) -> None:
        self.now, self.wall = NOW, WALL

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.wall


@contextmanager
def receiving(table: ReportTable, family: int = socket.AF_INET) -> Iterator[tuple[ReportSocket, socket.socket]]:
    """Yield a report socket that only the test reads, and a socket that is connected to it."""
    loop = asyncio.new_event_loop()
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    reports = ReportSocket(Endpoint(host, 0))
    reports.attach(table, lambda: None, loop, EventLog())
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.connect((host, reports.address.port))
        yield reports, sender
    reports.close(loop, leave=True)
    loop.close()


def table_with(reader: ReportReader, *keys: MasterKey) -> ReportTable:
    table = make(*keys)
    table.use_reader(reader)
    return table


def outcome(table: ReportTable) -> Any:
    """Return everything that reports have changed in a table, with the order of the metrics."""
    readings = {name: (reading, list(reading.metrics)) for name, reading in table.snapshot().readings.items()}
    return table.counts, readings, table.state(NOW), [table.host_document(host, "127.0.0.1", WALL) for host in HOSTS]


def receive(reader: ReportReader, datagrams: Sequence[bytes], *, then: Callable[[ReportTable], None]) -> Any:
    """Return the outcome of all ``datagrams``, of which ``then`` is called in the middle."""
    table = table_with(reader, KEY, OTHER_KEY)
    with receiving(table) as (reports, sender):
        half = len(datagrams) // 2
        for part in (datagrams[:half], datagrams[half:]):
            for data in part:
                sender.send(data)
            while reports.drain():
                pass
            then(table)
    return outcome(table)


sent = st.builds(
    datagram,
    st.sampled_from(["gandalf", "frodo", "sauron"]),
    seq=st.integers(1, 6),
    boot=st.integers(7, 8),
    at=st.sampled_from([WALL, WALL, WALL + 1, WALL - 29, WALL + 31]),
    key=st.sampled_from([KEY, KEY, KEY, OTHER_KEY, MasterKey(bytes(32)), None]),
    metrics=st.sampled_from(LOADS),
    kind=st.sampled_from(["data", "data", "data", "alarm", "bye"]),
    interval=st.sampled_from([1.0, 0.001, 86_400.0]),
)
damaged = st.builds(lambda data, length: data[:-1] + bytes(length), sent, st.integers(0, MAX_DATAGRAM))


@given(st.lists(sent | damaged, max_size=BATCH + 20))
@example([datagram(seq=seq, at=WALL + seq / 100) for seq in range(1, BATCH + 2)])
@example([datagram(seq=1)] * 3)
@example([datagram(seq=1), bytes(MAX_DATAGRAM + 1), datagram(seq=2), b"", datagram(seq=3)])
def test_batches_and_single_datagrams_have_the_same_outcome(datagrams: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_socket, "time", SteppingClock())
        native = receive(NativeReportReader(), datagrams, then=lambda _: None)
        assert native == receive(PYTHON_READER, datagrams, then=lambda _: None)


@given(st.lists(sent, min_size=2, max_size=20))
@example([datagram(seq=1, key=OTHER_KEY), datagram(seq=2, key=OTHER_KEY)])
def test_a_key_that_a_reload_removes_is_no_longer_accepted(datagrams: list[bytes]) -> None:
    def reload(table: ReportTable) -> None:
        table.reconfigure(HOSTS, [KEY], table.score)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_socket, "time", SteppingClock())
        native = receive(NativeReportReader(), datagrams, then=reload)
        assert native == receive(PYTHON_READER, datagrams, then=reload)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_batch_contains_datagrams_and_sources(family: int) -> None:
    table = table_with(NativeReportReader(), KEY)
    batch = table.reader.batch()
    assert batch is not None
    datagrams = [datagram(), datagram(host="frodo"), datagram(key=OTHER_KEY), bytes(MAX_DATAGRAM + 9)]
    with receiving(table, family) as (reports, sender):
        assert batch.receive(reports.fileno()) == 0
        for data in datagrams:
            sender.send(data)
        assert batch.receive(reports.fileno()) == len(datagrams)
        assert [batch.datagram(at) for at in range(4)] == [data[: MAX_DATAGRAM + 1] for data in datagrams]
        assert {batch.source(at) for at in range(4)} == {sender.getsockname()[0]}
    with pytest.raises(IndexError):
        batch.datagram(4)
    with pytest.raises(IndexError):
        batch.source(4)


def test_the_acceptor_takes_the_next_reports_of_known_hosts_and_leaves_all_others_to_the_table() -> None:
    table = table_with(NativeReportReader(), KEY)
    batch = table.reader.batch()
    assert batch is not None
    first = [datagram(seq=1), datagram(host="frodo", seq=1)]
    others = [
        datagram(seq=2), datagram(host="frodo", seq=2), datagram(seq=2), datagram(seq=3, kind="alarm"),
        datagram(seq=4, boot=8, at=WALL + 1), datagram(seq=5, key=OTHER_KEY), datagram(host="sauron", seq=1),
        datagram(seq=6, at=WALL + 31), bytes(9),
    ]  # fmt: skip
    for data in first:
        assert table.accept(data, "192.0.2.1", NOW, WALL) == "accepted"
    with receiving(table) as (reports, sender):
        for data in others:
            sender.send(data)
        assert batch.receive(reports.fileno()) == len(others)
        assert table.accept_batch(batch, 0, NOW, WALL) == 2
        assert [table.accept_batch(batch, at, NOW, WALL) for at in range(2, len(others))] == [*range(2, len(others))]
    assert table.counts["accepted"] == len(first) + 2
    assert sum(table.counts.values()) == table.counts["accepted"], "others are left to the table without any change"


def test_a_known_host_that_sends_too_much_is_left_to_the_table() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_socket, "time", SteppingClock())
        datagrams = [datagram(seq=seq) for seq in range(1, 130)]
        counts = receive(NativeReportReader(), datagrams, then=lambda _: None)[0]
    assert (counts["accepted"], counts["rate"]) == (100, 29)


@given(st.lists(sent, max_size=20))
@example([datagram(seq=seq, at=WALL + seq / 100, metrics=IDLE) for seq in range(1, 9)])
def test_reports_from_a_bus_have_the_same_outcome_on_both_planes(datagrams: list[bytes]) -> None:
    outcomes = []
    for reader in (NativeReportReader(), PYTHON_READER):
        table = table_with(reader, KEY, OTHER_KEY)
        table.bus = BusStatus()
        results = []
        for number, data in enumerate(datagrams):
            host = open_envelope(data).host if number % 5 else "gandalf"
            results.append(table.accept(data, "lbdns.report.-.x", NOW, WALL, host))
            if number % 3 == 0:
                results.append(table.accept(data, "192.0.2.1", NOW, WALL))
        newest = {host: table._peers[host].newest for host in HOSTS if host in table._peers}
        outcomes.append((results, outcome(table), newest, table.bus.counts))
    assert outcomes[0] == outcomes[1]


def test_each_call_reads_at_most_one_batch() -> None:
    table = table_with(NativeReportReader(), KEY)
    with receiving(table) as (reports, sender):
        for _ in range(BATCH + 1):
            sender.send(b"x")
        assert reports.drain()
        assert table.counts["malformed"] == BATCH
        assert not reports.drain()
        assert table.counts["malformed"] == BATCH + 1


def test_reading_fails_without_an_open_socket() -> None:
    batch = NativeReportReader().batch()
    assert batch is not None
    with pytest.raises(OSError, match="Bad file descriptor"):
        batch.receive(-1)
