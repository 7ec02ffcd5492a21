"""Fuzz target ``report``: the decoder of report datagrams and the collector's table of reports.

An input is a sequence of datagrams. Each datagram is preceded by one byte for the elapsed time and two bytes for the
length. Each datagram is passed unchanged to the decoder and to a report table that has no keys. It is also passed twice
to a report table that has a key: once unchanged, and once with a valid key id and tag. The copy with a valid tag passes
the tag check, so the search also reaches the code after that check.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgpack

from lbdns.model.farm import ReportingHost
from lbdns.scores.score import MAX_SCORE
from lbdns.scores.thesis import THESIS
from lbdns_collector.reports.report_table import ACCEPTED, RESULTS, ReportTable
from lbdns_collector.reports.reporting_peer import MAX_SKEW
from lbdns_shared.errors import ReportError
from lbdns_shared.keys import KEY_LENGTH, MasterKey
from lbdns_shared.report import MAGIC, MAX_DATAGRAM, REASONS, TAG_LENGTH, Report, decode_body, encode, open_envelope
from lbdns_tools.fuzz.fuzz_targets import Mutator

SECONDS: Final = 0.5
MAX_LENGTH: Final = 4096
TICK: Final = 0.25  # seconds per unit of an input's time byte

KEY: Final = MasterKey(bytes(range(KEY_LENGTH)))
WALL: Final = 1_800_000_000.0  # Unix seconds at the beginning of an input
SOURCE: Final = "192.0.2.16"
HOSTS: Final = {name: ReportingHost((f"{name}.hobbit",), (SOURCE,)) for name in ("bilbo", "frodo", "web-1.rack_2", "0")}
METRICS: Final = (*THESIS.terms, "load1", "requests_total", "net_rx")
KEYS: Final = ("boot", "seq", "time", "interval", "kind", "metrics", "alarm")
WORDS: Final = (
    MAGIC, *(text.encode() for text in (*HOSTS, *METRICS, *KEYS, "data", "bye")),
    b"\xcb\x7f\xf8\0\0\0\0\0\0", b"\xcb\x7f\xf0\0\0\0\0\0\0", b"\xcb\x7f\xef\xff\xff\xff\xff\xff\xff",
    b"\xcf" + b"\xff" * 8, b"\xd3\x80" + b"\0" * 7, b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xd6\xff",
    b"\x91" * 16,
)  # fmt: skip
#: Values of wrong types and extreme values
ODD: Final[tuple[object, ...]] = (
    0, 1, -1, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, True, None,
    "", "data", "alarm", "bye", "x" * 300, b"", b"\xff" * 20, [], [[]], {}, {"a": {"a": {}}},
    86_400.0, 86_400.5, WALL, WALL + MAX_SKEW, WALL - MAX_SKEW - 0.01, msgpack.ExtType(5, b"x"),
    msgpack.Timestamp(0, 0),
)  # fmt: skip


def split_datagrams(data: bytes) -> Iterator[tuple[float, bytes]]:
    """Yield each datagram with the elapsed seconds.

    A datagram whose length exceeds the rest of the input is cut off at the end of the input.
    """
    at = 0
    while at + 3 <= len(data):
        end = at + 3 + int.from_bytes(data[at + 1 : at + 3], "big")
        yield data[at] * TICK, data[at + 3 : end]
        at = end


def join_datagrams(datagrams: Iterable[tuple[float, bytes]]) -> bytes:
    return b"".join(
        bytes((min(255, round(after / TICK)),)) + len(datagram).to_bytes(2, "big") + datagram
        for after, datagram in datagrams
    )


def with_valid_tag(datagram: bytes) -> bytes:
    """Return the datagram with KEY's ID and a valid tag. If the datagram is too short for them, or its host name is not
    ASCII, return it unchanged."""
    body_start = 9 + datagram[8] if len(datagram) > 9 else 0
    host = datagram[9:body_start]
    if not body_start < len(datagram) - TAG_LENGTH or not host.isascii():
        return datagram
    signed = datagram[:4] + KEY.key_id + datagram[8:-TAG_LENGTH]
    return signed + KEY.agent_key(host.decode("ascii")).tag(signed)


def check(data: bytes) -> None:
    keyed, open_to_all = ReportTable(HOSTS, [KEY], THESIS), ReportTable(HOSTS, [], THESIS)
    seen: set[tuple[str, int, int]] = set()
    now = received = 0.0
    for after, datagram in split_datagrams(data):
        now += after
        received += 1
        _check_decoder(datagram)
        open_to_all.accept(datagram, SOURCE, now, WALL + now)
        for form in (datagram, with_valid_tag(datagram)):
            result = keyed.accept(form, SOURCE, now, WALL + now)
            assert result in RESULTS
            if result == ACCEPTED:
                _check_accepted(form, now, seen)
        for table in (keyed, open_to_all):
            _check_readings(table)
    assert sum(keyed.counts.values()) == 2 * received
    assert sum(open_to_all.counts.values()) == received


def _check_decoder(datagram: bytes) -> None:
    """Check that the decoder returns a report or raises ReportError, and that re-encoding does not change the
    report."""
    try:
        report = decode_body(open_envelope(datagram))
    except ReportError as refusal:
        assert refusal.reason in REASONS  # noqa: PT017  not a test: any exception is a finding
        return
    assert all(math.isfinite(value) for value in (report.time, report.interval, *report.metrics.values()))
    try:
        again = encode(report)
    except ValueError:
        assert len(datagram) > MAX_DATAGRAM // 2, "only a long report may exceed the size limit after re-encoding"
        return
    if report.kind == "alarm" or not report.alarm:
        assert decode_body(open_envelope(again)) == report


def _check_accepted(datagram: bytes, now: float, seen: set[tuple[str, int, int]]) -> None:
    assert len(datagram) <= MAX_DATAGRAM
    envelope = open_envelope(datagram)
    assert envelope.signed_by(KEY.agent_key(envelope.host))
    report = decode_body(envelope)
    assert abs(report.time - (WALL + now)) <= MAX_SKEW
    what = (report.host, report.boot, report.seq)
    assert what not in seen, "a report counted twice"
    seen.add(what)


def _check_readings(table: ReportTable) -> None:
    """Check that published readings belong to members, contain a valid score, and can be encoded as JSON."""
    snapshot = table.snapshot()
    assert snapshot is table.snapshot()
    members = {member for host in HOSTS.values() for member in host.members}
    for name, reading in snapshot.readings.items():
        assert name in members
        assert reading.score is not None
        assert 0 <= reading.score <= MAX_SCORE
        assert all(math.isfinite(part) for part in THESIS.parts(reading.metrics).values())
        json.dumps([reading.score, dict(reading.metrics), reading.alarm], allow_nan=False).encode()
    assert set(table.skews) <= set(HOSTS)


def seeds() -> Mapping[str, bytes]:
    idle = {"run_queue": 0.0, "cpu_idle": 100.0, "gateway_ping": 0.5, "requests_per_s": 3.25, "idle_workers": 20.0}
    reports = {
        "data": Report("bilbo", 7, 1, WALL, 1.0, idle),
        "alarm": Report("frodo", 2**64 - 1, 2**40, WALL + 29, 0.2, {}, "alarm", "cpu_idle 0.0 %, below the 5 % limit"),
        "bye": Report("web-1.rack_2", 0, 3, WALL - 29, 86_400.0, {}, "bye"),
        "full": Report("0", 9, 9, WALL, 10.0, {f"m{i}": i / 3 for i in range(60)}),
        "stranger": Report("sauron", 1, 1, WALL, 1.0, idle),
        "old": Report("bilbo", 7, 2, WALL - 31, 1.0, idle),
    }
    found = {
        name: join_datagrams([(0, encode(report, KEY.agent_key(report.host)))]) for name, report in reports.items()
    }
    found["unsigned"] = join_datagrams([(0, encode(reports["data"]))])
    sequence = [
        Report("bilbo", boot, seq, WALL + seq, 1.0, idle) for boot, seq in ((7, 1), (7, 2), (8, 3), (7, 4), (9, 5))
    ]
    found["boots"] = join_datagrams((1.0, encode(report, KEY.agent_key("bilbo"))) for report in sequence)
    found["burst"] = join_datagrams((0, encode(Report("0", 1, seq, WALL, 1.0, {}))) for seq in range(1, 40))
    return found


def mutate(data: bytes, max_size: int, chance: random.Random, bytewise: Mutator) -> bytes:
    datagrams = list(split_datagrams(data))
    if not datagrams or chance.random() < 0.3:
        return bytewise(data, max_size)
    at = chance.randrange(len(datagrams))
    after, datagram = datagrams[at]
    match chance.randrange(8):
        case 0:
            datagrams.insert(chance.randrange(len(datagrams) + 1), (after, datagram))
        case 1 if len(datagrams) > 1:
            del datagrams[at]
        case 2:
            datagrams[at] = (chance.choice((0.0, TICK, 1.0, 31.0, 60.0)), datagram)
        case 3:
            datagrams[at] = after, bytewise(datagram, MAX_DATAGRAM + 8)
        case _:
            datagrams[at] = after, _with_another_body(datagram, chance, bytewise)
    return join_datagrams(datagrams)[:max_size]


def _with_another_body(datagram: bytes, chance: random.Random, bytewise: Mutator) -> bytes:
    start = 9 + datagram[8] if len(datagram) > 9 else 0
    body = datagram[start:-TAG_LENGTH]
    if chance.random() < 0.2:
        return datagram[:start] + bytewise(body, MAX_DATAGRAM) + datagram[-TAG_LENGTH:]
    try:
        fields = msgpack.unpackb(body, strict_map_key=False)
        where: Any = chance.choice([fields, fields, fields.get("metrics", fields)])
        match chance.randrange(4):
            case 0:
                where.pop(chance.choice(list(where)), None)
            case 1:
                where[chance.choice(METRICS)] = chance.choice((*ODD, chance.uniform(-10, 500)))
            case 2:
                where[chance.choice(("seq", "boot"))] = chance.randrange(12)
            case 3 if chance.random() < 0.1:
                nested: list[Any] = []
                for _ in range(chance.choice((3, 100, 500, 1000))):
                    nested = [nested]
                where[chance.choice(KEYS)] = nested
            case _:
                where[chance.choice(KEYS)] = chance.choice(ODD)
        body = msgpack.packb(fields)
    except (ValueError, TypeError, AttributeError, IndexError, RecursionError, msgpack.UnpackException):
        body = bytewise(body, MAX_DATAGRAM)
    return datagram[:start] + body + datagram[-TAG_LENGTH:]
