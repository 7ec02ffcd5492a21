"""A native report table and a Python one agree after any sequence of reports, reloads, restarts and checks."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.model.farm import Farm, ReportingHost
from lbdns.model.joined_members import NO_JOINED_MEMBERS, JoinedMembers, with_joined
from lbdns.model.snapshot import FailedCheck, Reading, changed_members
from lbdns.scores.score import Score, Term
from lbdns.scores.thesis import THESIS
from lbdns_collector.joining.join_requests import JoinRequests
from lbdns_collector.reports import report_socket
from lbdns_collector.reports.adaptive_weights import WeightSearch, WeightSearchSettings
from lbdns_collector.reports.bus_status import BusStatus
from lbdns_collector.reports.report_reader import PYTHON_READER, NativeReportReader, ReportReader
from lbdns_collector.reports.report_socket import ReportSocket
from lbdns_collector.reports.report_table import ReportTable
from lbdns_shared.keys import MasterKey
from lbdns_shared.report import MAGIC, MAX_DATAGRAM, NO_KEY_ID, NO_TAG
from tests.collector.collector_fixtures import HOSTS, IDLE, KEY, OTHER_KEY, WALL
from tests.collector.joining.joining_farms import joinable
from tests.collector.reports.test_report_batch import SteppingClock, receiving
from tests.needs import needs

pytestmark = needs(native=True)

JOIN: Final = 'join = { names = "web-*", networks = ["127.0.0.0/8"], max = 2, leave_after = "10s" }'
SOURCES: Final = ("127.0.0.1", "127.0.0.18")
#: A host that is two members, and a host that is the member of another
TWICE: Final = {
    "gandalf": ReportingHost(("gandalf.hobbit", "gandalf.mail"), ("127.0.0.18",)),
    "saruman": ReportingHost(("bilbo.hobbit",), ("127.0.0.1",)),
}
LOADED: Final = Score({"capacity_used": Term(60.0, 100.0, "low"), "run_queue_per_core": Term(40.0, 2.0, "low")})
SCORES: Final = (THESIS, LOADED, Score({"cpu_idle": Term(50.0, 100.0, "high", cap=True)}))
METRICS: Final = (
    *IDLE, "capacity_used", "run_queue_per_core", "idle_worker_share", "cpu_count", "busy_workers", "requests_total",
    "httpd_cpu_seconds", "colour",
)  # fmt: skip


Pairs = Sequence[tuple[Any, Any]]


def pack(pairs: Pairs) -> bytes:
    """Return a msgpack map, in which a key may occur several times. A value that is a tuple is such a map too."""
    head = bytes([0x80 | len(pairs)]) if len(pairs) < 16 else b"\xde" + len(pairs).to_bytes(2, "big")
    packed = (
        (msgpack.packb(key), pack(each) if isinstance(each, tuple) else msgpack.packb(each)) for key, each in pairs
    )
    return head + b"".join(part for pair in packed for part in pair)


def report(host: str, key: MasterKey | None, body: Pairs, added: bytes = b"") -> bytes:
    """Return a report with any body. ``added`` follows the tag."""
    own = key.agent_key(host) if key else None
    start = MAGIC + (own.key_id if own else NO_KEY_ID) + bytes([len(host)]) + host.encode() + pack(body)
    return (start + (own.tag(start) if own else NO_TAG) + added)[: MAX_DATAGRAM + 9]


def burst(first: int, count: int, host: str) -> Datagrams:
    """Return many reports of one host, in the order in which they were sent."""
    loads = ((("requests_total", 90 * n), ("cpu_idle", 50.0), ("requests_per_s", 30.0), ("run_queue", n))
             for n in range(count))  # fmt: skip
    bodies = (
        [("boot", 7), ("seq", first + n), ("time", WALL), ("interval", 1.0), ("metrics", load)]
        for n, load in enumerate(loads)
    )
    return Datagrams([(report(host, KEY, body), 0, None) for body in bodies])


@dataclass
class Tables:
    """One table, its clock and the socket that it reads."""

    table: ReportTable
    farm: Farm
    clock: SteppingClock
    reports: ReportSocket
    senders: Sequence[socket.socket]
    joined: JoinedMembers = NO_JOINED_MEMBERS
    bus: BusStatus = field(default_factory=BusStatus)
    results: list[Any] = field(default_factory=list)

    def use(
        self, hosts: dict[str, ReportingHost], keys: Sequence[MasterKey], score: Score, shadow: Score | None
    ) -> None:
        assert self.table.joins
        self.table.joins.use(self.farm, self.joined)
        joined = with_joined(self.farm, self.joined)[0].hosts
        self.table.reconfigure({**joined, **hosts}, keys, score, shadow)

    def outcome(self) -> Any:
        """Return everything that operations may change, with the order of the metrics."""
        table, before = self.table, self.table._snapshot
        snapshot = table.snapshot()
        return (
            self.results, table.counts, self.bus.counts, snapshot.version, changed_members(before, snapshot),
            {name: (repr(each), repr(dict(each.metrics))) for name, each in snapshot.readings.items()},
            table.state(self.clock.now), table.records(self.clock.wall), table.skews, table.take_failed_servers(),
            {name: (peer.newest, peer.join_request, peer.host, peer.filled) for name, peer in table._peers.items()},
            list(table.joins.requested if table.joins else ()),
            [sender.document(self.clock.wall) for sender in table.rejected.senders(self.clock.wall)],
            table.adaptive and table.adaptive.weights,
        )  # fmt: skip


class Operation:
    """A change that is made to both tables."""

    def run(self, on: Tables) -> None:
        raise NotImplementedError


@dataclass
class Datagrams(Operation):
    """Datagrams that arrive at one moment: from the bus with a subject's host, or else from a socket."""

    items: Sequence[tuple[bytes, int, str | None]]

    def run(self, on: Tables) -> None:
        if any(subject is not None for _, _, subject in self.items):
            for data, source, subject in self.items:
                where = f"lbdns.report.-.{subject}" if subject is not None else SOURCES[source]
                on.results.append(on.table.accept(data, where, on.clock.now, on.clock.wall, subject))
            return
        for data, source, _ in self.items:
            on.senders[source].send(data)
        while on.reports.drain():
            pass


@dataclass
class Passes(Operation):
    monotonic: float
    wall: float

    def run(self, on: Tables) -> None:
        on.clock.now += self.monotonic
        on.clock.wall += self.wall


@dataclass
class Reload(Operation):
    hosts: dict[str, ReportingHost]
    keys: Sequence[MasterKey]
    score: Score
    shadow: Score | None
    settings: tuple[float, bool, bool, bool]  # the longest interval; whether a bus, joined members, adaptive weights

    def run(self, on: Tables) -> None:
        on.table.max_interval, has_bus, has_joined, adapts = self.settings
        on.table.bus = on.bus if has_bus else None
        on.table.agentless = ("frodo.hobbit",) if "frodo" not in self.hosts else ()
        assert on.table.joins
        on.joined = (
            on.joined.changed(put=list(on.table.joins.requested), removed=()) if has_joined else NO_JOINED_MEMBERS
        )
        search = WeightSearch(self.score.terms, WeightSearchSettings(1.5, 10.0), Random(7))
        on.table.adaptive = search if adapts else None
        on.use(self.hosts, self.keys, self.score, self.shadow)


class Restart(Operation):
    def run(self, on: Tables) -> None:
        on.table.restore(
            msgpack.unpackb(msgpack.packb(on.table.state(on.clock.now)), strict_map_key=False), on.clock.now
        )


class Recall(Operation):
    def run(self, on: Tables) -> None:
        records = msgpack.unpackb(msgpack.packb(on.table.records(on.clock.wall)), strict_map_key=False)
        on.results.append(on.table.remember(records, on.clock.now, on.clock.wall))


class Check(Operation):
    """A failed check of a member."""

    def run(self, on: Tables) -> None:
        if before := on.table.reading("gandalf.hobbit"):
            failed = (FailedCheck("web", "tcp:80: connection refused"),)
            reading = Reading(before.received, before.interval, before.score, before.metrics, before.alarm, before.gone,
                              before.shadow_score, failed)  # fmt: skip
            on.table.replace("gandalf.hobbit", reading)


numbers = (
    st.sampled_from([0, 0.0, -0.0, 1, 3.0, 40.0, 99.5, -5, 1e308, -1e308, 5e-324, 2**63, 2**64 - 1, -(2**63)])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**63), 2**64 - 1)
)
strange: st.SearchStrategy[Any] = st.sampled_from([None, True, "x", b"x", "", float("nan"), float("inf"), [], {}])
metric_items = st.lists(st.tuples(st.sampled_from(METRICS), numbers), max_size=12, unique_by=lambda item: item[0]).map(
    tuple
)
strange_items = st.lists(
    st.tuples(st.sampled_from(METRICS) | strange.filter(lambda x: not isinstance(x, list | dict)), numbers | strange),
    max_size=6,
).map(tuple)


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from((*[usual] * 7, *others))


@st.composite
def datagrams(draw: st.DrawFn) -> tuple[bytes, int, str | None]:
    is_plain = draw(st.integers(0, 3)) > 0
    host = draw(st.sampled_from(["gandalf", "gandalf", "gandalf", "frodo", "saruman", "web-1", "web-2", "web-3", "x"]))
    at = WALL + draw(st.sampled_from([0.0, 0.0, 0.0, 1.0, 5.0, -29.0, 30.0, 31.0]))
    body: list[tuple[Any, Any]] = [
        ("boot", draw(st.sampled_from([7, 7, 7, 8]))), ("seq", draw(st.integers(1, 9))), ("time", at),
        ("interval", draw(st.sampled_from([1.0, 1, 0.001, 86_400.0, 5.0]))), ("metrics", draw(metric_items)),
        ("kind", draw(st.sampled_from(["data", "data", "data", "data", "alarm", "bye"]))),
    ]  # fmt: skip
    if draw(st.booleans()):
        body.append(("addresses", draw(st.sampled_from([["127.0.0.1"], ["127.0.0.18"], ["127.0.0.18", "::1"], []]))))
    if draw(st.booleans()):
        body.append(("pool", draw(st.sampled_from(["web", "", "wob"]))))
    if not is_plain:
        names = st.sampled_from(["boot", "seq", "time", "interval", "kind", "alarm", "metrics", "new", "addresses"])
        body += draw(st.lists(st.tuples(names, numbers | strange | strange_items), max_size=2))
        if draw(st.booleans()):
            del body[draw(st.integers(0, len(body) - 1))]
        body = draw(st.permutations(body))
    key = draw(st.sampled_from([KEY, KEY, KEY, KEY, OTHER_KEY, MasterKey(bytes(32)), None]))
    damage = draw(st.sampled_from([b"", b"", b"", b"", b"\0", bytes(1200)]))
    subject = draw(st.sampled_from([None, None, host, host, "gandalf", ""]))
    return report(host, key, body, damage), draw(st.integers(0, 1)), subject


@st.composite
def sessions(draw: st.DrawFn) -> Datagrams:
    """Return reports of one host in their order, of which few are unlike the others."""
    host, first = draw(st.sampled_from(["gandalf", "saruman", "web-1"])), draw(st.integers(1, 30))
    found = []
    for seq in range(first, first + draw(st.integers(3, 8))):
        at = WALL + seq / 100 + draw(mostly(0.0, 31.0, -31.0))
        body: list[tuple[Any, Any]] = [
            ("boot", 7), ("seq", seq), ("time", at), ("interval", 1.0), ("metrics", draw(metric_items)),
            ("kind", draw(mostly("data", "alarm", "bye"))), ("pool", draw(mostly("web", "", "wob"))),
        ]  # fmt: skip
        if addresses := draw(mostly([], ["127.0.0.1"], ["127.0.0.1", "127.0.0.18"], ["10.0.0.1"])):
            body.append(("addresses", addresses))
        key = draw(mostly(KEY, OTHER_KEY))
        found.append((report(host, key, body), draw(mostly(0, 1)), None))
    return Datagrams(found)


rarely = st.sampled_from([False, False, True])
operations = st.one_of(
    *[st.lists(datagrams(), min_size=1, max_size=12).map(Datagrams)] * 4,
    *[sessions()] * 3,
    st.builds(burst, st.integers(1, 50), st.integers(1, 120), st.sampled_from(["gandalf", "web-1"])),
    st.builds(Passes, st.sampled_from([0.0, 0.01, 1.0, 5.0, 70.0]), st.sampled_from([0.0, 1.0, -1.0, 29.0, -40.0])),
    st.builds(
        Reload,
        st.sampled_from([HOSTS, TWICE, {**HOSTS, **TWICE}, {}]),
        st.sampled_from([(KEY,), (KEY, OTHER_KEY), (OTHER_KEY,), ()]),
        st.sampled_from(SCORES),
        st.none() | st.sampled_from(SCORES),
        st.tuples(st.sampled_from([10.0, 0.5, 86_400.0]), st.booleans(), st.booleans(), rarely),
    ),
    st.builds(Restart), st.builds(Recall), st.builds(Check),
)  # fmt: skip


@contextmanager
def tables(reader: ReportReader, farm: Farm) -> Iterator[Tables]:
    table = ReportTable({**farm.hosts, **HOSTS}, (KEY, OTHER_KEY), THESIS, LOADED)
    table.joins = JoinRequests(farm)
    table.bus = bus = BusStatus()
    table.use_reader(reader)
    clock = SteppingClock()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(report_socket, "time", clock)
        reports, first = stack.enter_context(receiving(table))
        other = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        other.bind((SOURCES[1], 0))
        other.connect(("127.0.0.1", reports.address.port))
        yield Tables(table, farm, clock, reports, (first, other), bus=bus)


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    return joinable(tmp_path_factory.mktemp("farm"), join=JOIN)


def play(reader: ReportReader, farm: Farm, script: Sequence[Operation]) -> list[Any]:
    outcomes = []
    with tables(reader, farm) as on:
        for operation in script:
            operation.run(on)
            outcomes.append(on.outcome())
    return outcomes


def with_metrics(seq: int, *items: tuple[str, float]) -> bytes:
    body = [("boot", 7), ("seq", seq), ("time", WALL), ("interval", 1.0), ("metrics", items)]
    return report("gandalf", KEY, body)


#: The last value of a metric that a report contains twice counts
REPEATED: Final = [with_metrics(1, ("cpu_idle", 9.0)), with_metrics(2, ("cpu_idle", 1.0), ("cpu_idle", 99.0))]


@given(script=st.lists(operations, min_size=1, max_size=14))
@example(script=[Datagrams([(each, 0, None) for each in REPEATED])])
def test_both_tables_agree_after_each_operation(farm: Farm, script: list[Operation]) -> None:
    native, python = play(NativeReportReader(), farm, script), play(PYTHON_READER, farm, script)
    for operation, ours, theirs in zip(script, native, python, strict=True):
        for value, wanted in zip(ours, theirs, strict=True):
            assert value == wanted, operation


def test_the_native_table_accepts_most_reports_by_itself(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the comparison would be one of Python with itself."""
    taken = 0

    def count(table: ReportTable, number: int) -> None:
        nonlocal taken
        taken += number
        counted(table, number)

    counted = ReportTable._count_accepted
    monkeypatch.setattr(ReportTable, "_count_accepted", count)
    play(NativeReportReader(), farm, [burst(1, 60, "gandalf"), burst(1, 40, "web-1")])
    # A host becomes known with its first report, and a host that joins with its second one
    assert taken == (60 - 1) + (40 - 2)
