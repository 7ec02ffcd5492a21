"""Tests of the report readers: the native reader accepts the same datagrams as Python, with the same values."""

from __future__ import annotations

import hashlib
import hmac

import msgpack
from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.answering.plane import AVAILABLE
from lbdns_collector.reports.report_reader import PYTHON_READER, NativeReportReader, ReportReader, choose_reader
from lbdns_shared.errors import ReportError
from lbdns_shared.report import KINDS, MAX_ADDRESSES, MAX_DATAGRAM, AgentKey, Report, encode
from tests.collector.collector_fixtures import IDLE, KEY, OTHER_KEY, WALL, datagram
from tests.collector.report_tables import accept, make
from tests.needs import needs

pytestmark = needs(native=True)

AGENT_KEY = KEY.agent_key("gandalf")
KEYS = [AGENT_KEY, KEY.agent_key("frodo"), OTHER_KEY.agent_key("gandalf")]
FIELDS = ("boot", "seq", "time", "interval", "kind", "metrics", "alarm", "pool", "addresses", "colour")

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats() | st.floats(width=32)
texts = st.text(max_size=40) | st.sampled_from(KINDS)
anything = st.recursive(
    st.none()
    | st.booleans()
    | numbers
    | texts
    | st.binary(max_size=8)
    | st.builds(msgpack.ExtType, st.just(5), st.binary()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | numbers, inner, max_size=20),
    max_leaves=12,
)
finite = st.floats(allow_nan=False, allow_infinity=False)
reports = st.builds(
    Report,
    host=st.from_regex(r"[a-z0-9_][a-z0-9_-]{0,9}(\.[a-z0-9_]{1,9}){0,2}", fullmatch=True),
    boot=st.integers(0, 2**64 - 1),
    seq=st.integers(1, 2**64 - 1),
    time=finite,
    interval=st.floats(0, 86_400, exclude_min=True),
    metrics=st.dictionaries(st.text(max_size=12), finite, max_size=20),
    kind=st.sampled_from(KINDS),
    alarm=st.text(max_size=40),
    pool=st.text(max_size=20),
    addresses=st.lists(st.text(max_size=15), max_size=MAX_ADDRESSES).map(tuple),
)


def signed(body: bytes) -> bytes:
    front = b"LBR1" + KEY.key_id + b"\x07gandalf" + body
    return front + hmac.digest(AGENT_KEY.secret, front, hashlib.sha256)[:16]


def read(reader: ReportReader, data: bytes) -> object:
    """Return everything that a reader says about a datagram. Types are compared too, because 1 == 1.0 == True."""
    try:
        opened = reader.open(data)
    except ReportError as error:
        return error.reason
    about = (opened.host, opened.key_id, [opened.signed_by(key) for key in KEYS])
    try:
        report = reader.decode(opened)
    except ReportError as error:
        return (*about, error.reason)
    return (*about, repr(report), list(report.metrics), type(report))


def assert_agreement(data: bytes) -> None:
    assert read(NativeReportReader(), data) == read(PYTHON_READER, data)


def try_to_encode(report: Report, key: AgentKey | None) -> bytes:
    try:
        return encode(report, key)
    except ValueError:  # longer than a datagram may be
        return b""


GOOD = {"boot": 7, "seq": 1, "time": WALL, "interval": 1.0, "kind": "data", "metrics": IDLE}


@given(reports, st.sampled_from([None, *KEYS]))
@example(Report("gandalf", 1, 1, 0.0, 1.0, {f"m{number}": 1.0 for number in range(90)}), AGENT_KEY)
def test_what_agents_send_is_read_natively(report: Report, key: AgentKey | None) -> None:
    if data := try_to_encode(report, key):
        assert_agreement(data)
        opened = NativeReportReader().open(data)
        assert type(opened).__name__ == "ReportEnvelope"
        assert opened.decode() is not None  # type: ignore[attr-defined]


@given(reports, st.integers(0, MAX_DATAGRAM), st.binary(max_size=30))
def test_truncated_and_extended(report: Report, length: int, more: bytes) -> None:
    data = try_to_encode(report, AGENT_KEY)
    assert_agreement(data[:length])
    assert_agreement(data + more)


@given(reports, st.lists(st.tuples(st.integers(0, MAX_DATAGRAM), st.integers(0, 255)), min_size=1, max_size=4))
def test_mutated(report: Report, damage: list[tuple[int, int]]) -> None:
    data = bytearray(try_to_encode(report, AGENT_KEY) or datagram())
    for position, value in damage:
        data[position % len(data)] = value
    assert_agreement(bytes(data))


@given(st.binary(max_size=300))
@example(b"\xc1")
@example(msgpack.packb(GOOD) + b"\x00")
@example(b"\x82\xa4boot\x01\xa4boot\x02")
@example(msgpack.packb(GOOD, use_single_float=True))
def test_any_signed_body(body: bytes) -> None:
    assert_agreement(signed(body))


@given(st.sampled_from(FIELDS), anything)
@example("metrics", {f"m{number}": 0 for number in range(257)})
@example("addresses", ["a"] * (MAX_ADDRESSES + 1))
@example("interval", 86_401)
@example("interval", 0)
@example("seq", 0)
@example("boot", -1)
@example("time", float("nan"))
@example("time", True)
@example("kind", "party")
@example("metrics", {"cpu_idle": -3, "run_queue": 200, "scan_rate": -200, "up": -70_000, "in": 2**63, "out": -(2**40)})
def test_any_value_of_any_field(field: str, value: object) -> None:
    assert_agreement(signed(msgpack.packb({**GOOD, field: value})))


@given(st.sampled_from(FIELDS))
def test_a_field_is_missing(field: str) -> None:
    assert_agreement(signed(msgpack.packb({name: value for name, value in GOOD.items() if name != field})))


@given(st.binary(max_size=80))
@example(b"a" * 63)
@example(b"a" * 64)
@example(b"a." + b"b" * 63)
@example(b"-a")
@example(b"a..b")
@example(b"a.")
@example(b"a\n")
def test_any_host_name(name: bytes) -> None:
    assert_agreement(b"LBR1" + bytes(4) + bytes([len(name)]) + name + msgpack.packb(GOOD) + bytes(16))


@given(st.binary(max_size=MAX_DATAGRAM + 100))
@example(datagram() + bytes(MAX_DATAGRAM))
@example(b"LBR1" + bytes(5) + b"\x80" + bytes(16))
def test_any_bytes(data: bytes) -> None:
    assert_agreement(data)


@given(st.lists(st.tuples(st.sampled_from(["gandalf", "frodo", "sauron"]), st.integers(1, 4), st.booleans(), reports)))
def test_tables_with_either_reader_hold_the_same(steps: list[tuple[str, int, bool, Report]]) -> None:
    python, native = make(KEY), make(KEY)
    native.use_reader(NativeReportReader())
    for host, seq, ours, report in steps:
        key = (KEY if ours else OTHER_KEY).agent_key(host)
        data = try_to_encode(report._replace(host=host, seq=seq, time=WALL), key)
        assert accept(native, data) == accept(python, data)
    assert native.counts == python.counts
    assert native.snapshot().readings == python.snapshot().readings


def test_choice_follows_the_plane() -> None:
    assert AVAILABLE
    assert choose_reader("python") is PYTHON_READER
    assert isinstance(choose_reader("auto"), NativeReportReader)
    assert isinstance(choose_reader("native"), NativeReportReader)
