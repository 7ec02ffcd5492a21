"""Tests of the report datagram, byte by byte, against its specification."""

from __future__ import annotations

import hashlib
import hmac
import math
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.errors import ReportError
from lbdns_shared.report import (
    KINDS,
    MAX_ADDRESSES,
    MAX_DATAGRAM,
    MAX_INTERVAL,
    REASONS,
    AgentKey,
    Envelope,
    Report,
    decode_body,
    encode,
    is_host_name,
    open_envelope,
)

MASTER = bytes(range(32))
SECRET = hmac.new(MASTER, b"lbdns report v1 gandalf", "sha256").digest()
KEY = AgentKey(hashlib.sha256(MASTER).digest()[:4], "gandalf", SECRET)
REPORT = Report("gandalf", boot=2**63, seq=7, time=1_700_000_000.25, interval=1.0, metrics={"run_queue": 3.0})


def read(datagram: bytes) -> Report:
    return decode_body(open_envelope(datagram))


def datagram_of(body: object, host: bytes = b"gandalf") -> bytes:
    """Build an unsigned datagram with an arbitrary body, without using the tested code."""
    packed = body if isinstance(body, bytes) else msgpack.packb(body)
    return b"LBR1" + bytes(4) + bytes([len(host)]) + host + packed + bytes(16)


def body_with(**changes: Any) -> dict[str, Any]:
    body = {"boot": 1, "seq": 1, "time": 1.5, "interval": 1.0, "kind": "data", "metrics": {"cpu_idle": 50.0}}
    body.update(changes)
    return {key: value for key, value in body.items() if value is not ...}


def deep_body(name: str, before: bytes = b"") -> bytes:
    """Build a body that msgpack can read but not write: under one key, lists are nested a thousand levels deep."""
    packed: bytes = msgpack.packb(body_with(**{name: ...}))
    key: bytes = msgpack.packb(name)
    return bytes([packed[0] + 1]) + packed[1:] + key + before + b"\x91" * 1000 + b"\xc0"


class TestLayout:
    def test_every_field_where_the_contract_has_it(self) -> None:
        datagram = encode(REPORT, KEY)
        assert datagram[0:4] == b"LBR1"
        assert datagram[4:8] == hashlib.sha256(MASTER).digest()[:4]
        assert datagram[8] == 7
        assert datagram[9:16] == b"gandalf"
        assert msgpack.unpackb(datagram[16:-16]) == {
            "boot": 2**63,
            "seq": 7,
            "time": 1_700_000_000.25,
            "interval": 1.0,
            "kind": "data",
            "metrics": {"run_queue": 3.0},
        }
        assert datagram[-16:] == hmac.new(SECRET, datagram[:-16], "sha256").digest()[:16]

    def test_without_a_key_id_and_tag_are_zero(self) -> None:
        datagram = encode(REPORT)
        assert datagram[4:8] == bytes(4)
        assert datagram[-16:] == bytes(16)

    def test_an_alarm_carries_its_reason_and_others_don_t(self) -> None:
        alarm = Report("gandalf", 1, 1, 0.0, 1.0, {}, kind="alarm", alarm="run_queue 40")
        assert msgpack.unpackb(encode(alarm)[16:-16])["alarm"] == "run_queue 40"
        assert "alarm" not in msgpack.unpackb(encode(REPORT)[16:-16])

    def test_the_envelope_is_the_datagram_in_parts(self) -> None:
        datagram = encode(REPORT, KEY)
        envelope = open_envelope(datagram)
        assert envelope == Envelope("gandalf", KEY.key_id, datagram[16:-16], datagram[:-16], datagram[-16:])

    def test_reasons_are_the_contract_s(self) -> None:
        bus = {"wrong_subject", "duplicate"}
        others = {reason for reason in REASONS if not reason.startswith("join_")} - bus
        assert others == {"too_long", "malformed", "unknown_host", "bad_tag", "clock", "replay", "rate"}

    def test_secrets_are_not_shown(self) -> None:
        assert SECRET.hex() not in repr(KEY)
        assert repr(SECRET) not in repr(KEY)


class TestSignature:
    def test_own_key_fits(self) -> None:
        assert open_envelope(encode(REPORT, KEY)).signed_by(KEY)

    @pytest.mark.parametrize("position", [4, 9, 15, 16, 30, -17, -16, -1])
    def test_a_changed_byte_anywhere_does_not(self, position: int) -> None:
        datagram = bytearray(encode(REPORT, KEY))
        datagram[position] ^= 1
        try:
            envelope = open_envelope(bytes(datagram))
        except ReportError:
            return  # a host name that is none is not looked at any further
        assert not envelope.signed_by(KEY)

    def test_another_s_key_or_none_does_not(self) -> None:
        other = AgentKey(KEY.key_id, "frodo", hmac.new(MASTER, b"lbdns report v1 frodo", "sha256").digest())
        assert not open_envelope(encode(REPORT, other)).signed_by(KEY)
        assert not open_envelope(encode(REPORT)).signed_by(KEY)


finite = st.floats(allow_nan=False, allow_infinity=False)
hosts = st.from_regex(r"[a-z0-9_][a-z0-9_-]{0,20}(\.[a-z0-9_][a-z0-9_-]{0,20}){0,3}", fullmatch=True)
reports = st.builds(
    Report,
    host=hosts,
    boot=st.integers(0, 2**64 - 1),
    seq=st.integers(1, 2**64 - 1),
    time=finite,
    interval=st.floats(1e-3, MAX_INTERVAL),
    metrics=st.dictionaries(st.text(max_size=10), finite, max_size=20),
    kind=st.sampled_from(KINDS),
    alarm=st.just(""),
    pool=st.text(max_size=10),
    addresses=st.lists(st.text(max_size=10), max_size=MAX_ADDRESSES).map(tuple),
)


class TestRoundTrip:
    @given(reports, st.booleans())
    def test_what_is_encoded_is_read(self, report: Report, signed: bool) -> None:
        key = AgentKey(b"\1\2\3\4", report.host, SECRET) if signed else None
        assert read(encode(report, key)) == report

    def test_an_alarm_s_reason_is_read(self) -> None:
        alarm = Report("gandalf", 1, 1, 0.0, 1.0, {"cpu_idle": 0.0}, kind="alarm", alarm="no memory")
        assert read(encode(alarm)) == alarm

    def test_numbers_become_floats(self) -> None:
        report = read(datagram_of(body_with(time=5, interval=2, metrics={"cpu_count": 4})))
        assert [type(n) for n in (report.time, report.interval, report.metrics["cpu_count"])] == [float] * 3

    def test_the_unknown_is_kept_or_ignored(self) -> None:
        report = read(datagram_of(body_with(colour="grey", metrics={"own_figure": 1.0, "cpu_idle": 2.0})))
        assert report.metrics == {"own_figure": 1.0, "cpu_idle": 2.0}

    def test_kind_and_metrics_may_be_left_out(self) -> None:
        report = read(datagram_of(body_with(kind=..., metrics=...)))
        assert (report.kind, report.metrics) == ("data", {})


class TestEncodeRefuses:
    @pytest.mark.parametrize("host", ["", "Gandalf", "gan dalf", "gandalf.", ".gandalf", "-g", "gandälf", "a" * 64])
    def test_what_is_no_host_name(self, host: str) -> None:
        assert not is_host_name(host)
        with pytest.raises(ValueError, match="host name"):
            encode(Report(host, 1, 1, 0.0, 1.0, {}))

    def test_a_host_name_longer_than_its_length_byte(self) -> None:
        name = ".".join(["a" * 63] * 4)
        assert len(name) == 255
        assert is_host_name(name)
        assert not is_host_name(name + ".a")

    def test_a_report_too_long_for_a_datagram(self) -> None:
        metrics = {f"metric_number_{i:03}": 1.5 for i in range(60)}
        with pytest.raises(ValueError, match=str(MAX_DATAGRAM)):
            encode(Report("gandalf", 1, 1, 0.0, 1.0, metrics))


#: MetricValues that a key of the body must not have; ... is to leave it out
BAD_VALUES: dict[str, tuple[Any, ...]] = {
    "boot": (..., -1, 1.0, True, "1", None),
    "seq": (..., 0, -5, 1.5, True),
    "time": (..., "now", math.nan, math.inf, True, None),
    "interval": (..., 0, -1.0, math.nan, math.inf, MAX_INTERVAL * 2, "1"),
    "metrics": (None, [], 5, {"a": "b"}, {"a": math.nan}, {"a": -math.inf}, {"a": True}, {"a": None}),
}
#: A test's name, the datagram, a part of what is said about it
MALFORMED: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "LBR1"),
    ("shorter than its head", b"LBR1\0\0\0", "LBR1"),
    ("another magic", b"LBR2" + encode(REPORT)[4:], "LBR1"),
    ("no host name", datagram_of(body_with(), host=b""), "host name"),
    ("upper case", datagram_of(body_with(), host=b"Gandalf"), "host name"),
    ("a newline in the name", datagram_of(body_with(), host=b"gandalf\n"), "host name"),
    ("a name that is no text", datagram_of(body_with(), host=b"\xff\xfe"), "host name"),
    ("a name longer than the datagram", b"LBR1" + bytes(4) + b"\xffgandalf" + bytes(16), "too short"),
    ("no room for a body", b"LBR1" + bytes(4) + b"\7gandalf" + bytes(16), "too short"),
    ("a body cut short", datagram_of(msgpack.packb(body_with())[:-1]), "msgpack"),
    ("more after the body", datagram_of(msgpack.packb(body_with()) + b"\0"), "msgpack"),
    ("a reserved msgpack byte", datagram_of(b"\xc1"), "msgpack"),
    ("text that is not UTF-8", datagram_of(b"\x81\xa1\xff\1"), "msgpack"),
    ("a key that is no text", datagram_of(b"\x81\1\1"), "msgpack"),
    ("deeply nested", datagram_of(b"\x91" * 1100), "msgpack"),
    ("a map said to be huge", datagram_of(b"\xdf\xff\xff\xff\xff"), "msgpack"),
    ("a text said to be huge", datagram_of(b"\xdb\xff\xff\xff\xff"), "msgpack"),
    *(
        (f"a {name} nested too deep to be shown", datagram_of(deep_body(name)), name)
        for name in ("boot", "seq", "time", "interval", "kind")
    ),
    (
        "a metric nested too deep to be shown",
        datagram_of(deep_body("metrics", b"\x81\xa1a")),
        "must be a finite number",
    ),
    ("a list", datagram_of([1, 2]), "not a map"),
    ("a number", datagram_of(1), "not a map"),
    ("an unknown kind", datagram_of(body_with(kind="hello")), "kind"),
    ("a kind that is a list", datagram_of(body_with(kind=[])), "kind"),
    ("an alarm that is no text", datagram_of(body_with(kind="alarm", alarm=1)), "alarm"),
    *(
        (f"{name} {value!r}", datagram_of(body_with(**{name: value})), name.removesuffix("s"))
        for name, values in BAD_VALUES.items()
        for value in values
    ),
    ("a metric without a text as name", datagram_of(body_with(metrics={b"a": 1})), "metric"),
    ("more metrics than are kept", datagram_of(body_with(metrics={f"{i:x}": 1 for i in range(257)})), "256"),
]


class TestMalformed:
    @pytest.mark.parametrize(("datagram", "about"), [m[1:] for m in MALFORMED], ids=[m[0] for m in MALFORMED])
    def test_it_is_said_what_is_wrong(self, datagram: bytes, about: str) -> None:
        with pytest.raises(ReportError, match=about) as caught:
            read(datagram)
        assert caught.value.reason == "malformed"

    def test_longer_than_the_limit_is_too_long(self) -> None:
        assert read(encode(REPORT) if len(encode(REPORT)) <= MAX_DATAGRAM else b"")
        with pytest.raises(ReportError) as caught:
            open_envelope(b"LBR1" + bytes(MAX_DATAGRAM - 3))
        assert caught.value.reason == "too_long"
        with pytest.raises(ReportError) as caught:
            open_envelope(b"LBR1" + bytes(MAX_DATAGRAM - 4))
        assert caught.value.reason == "malformed"

    @given(st.binary(max_size=MAX_DATAGRAM + 10))
    def test_any_bytes_are_a_report_or_a_report_error(self, datagram: bytes) -> None:
        try_to_read(datagram)

    @given(st.binary(max_size=200))
    def test_any_body_is_a_report_or_a_report_error(self, body: bytes) -> None:
        try_to_read(datagram_of(body))

    @given(reports, st.lists(st.tuples(st.integers(0, MAX_DATAGRAM), st.integers(0, 255)), max_size=4))
    def test_any_damage_is_a_report_or_a_report_error(self, report: Report, damage: list[tuple[int, int]]) -> None:
        datagram = bytearray(encode(report))
        for position, value in damage:
            datagram[position % len(datagram)] = value
        try_to_read(bytes(datagram))

    @given(st.recursive(st.none() | st.booleans() | finite | st.text(max_size=5) | st.integers(-(2**63), 2**64 - 1),
                        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
                        max_leaves=10))  # fmt: skip
    def test_any_value_in_the_body_is_a_report_or_a_report_error(self, value: object) -> None:
        try_to_read(datagram_of(value))
        try_to_read(datagram_of(body_with(metrics=value)))
        try_to_read(datagram_of(body_with(kind=value)))


def try_to_read(datagram: bytes) -> None:
    reason = ""
    try:
        report = read(datagram)
    except ReportError as error:
        reason = error.reason
    assert reason in REASONS or is_host_name(report.host)
    assert reason in REASONS or all(math.isfinite(value) for value in report.metrics.values())
