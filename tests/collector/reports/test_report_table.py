"""Tests of the report table: every rule for accepting a report."""

from __future__ import annotations

import hashlib
import hmac

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.model.farm import ReportingHost
from lbdns.scores.thesis import THESIS
from lbdns_collector.reports.report_table import RESULTS, ReportTable
from lbdns_collector.reports.reporting_peer import BURST, MAX_REPLACED, MAX_SKEW, RATE
from lbdns_shared.keys import MasterKey
from lbdns_shared.report import MAX_DATAGRAM, REASONS
from tests.collector.collector_fixtures import ADDRESSES, KEY, OTHER_KEY, WALL, datagram
from tests.collector.report_tables import NOW, accept, make


def signed(host: str, body: bytes, tagged_as: str = "") -> bytes:
    """Return a datagram with this body. The tag is that of ``host`` or, if given, of the host ``tagged_as``."""
    front = b"LBR1" + KEY.key_id + bytes([len(host)]) + host.encode() + body
    secret = hmac.digest(KEY.secret, b"lbdns report v1 " + (tagged_as or host).encode(), hashlib.sha256)
    return front + hmac.digest(secret, front, hashlib.sha256)[:16]


def body(**changes: object) -> bytes:
    values = {"boot": 7, "seq": 1, "time": WALL, "interval": 1.0, "kind": "data", "metrics": {}, **changes}
    return bytes(msgpack.packb({name: value for name, value in values.items() if value is not None}))


def changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


GOOD = datagram()

SINGLE = [
    ("good", GOOD, "accepted"),
    ("made by hand", signed("gandalf", body()), "accepted"),
    ("unknown keys and metrics", signed("gandalf", body(mood="fine", metrics={"goblins": 3})), "accepted"),
    ("longest", signed("gandalf", body(pad="x" * 1098)), "accepted"),
    ("one byte too long", GOOD + bytes(MAX_DATAGRAM + 1 - len(GOOD)), "too_long"),
    ("empty", b"", "malformed"),
    ("wrong magic", b"LBR2" + GOOD[4:], "malformed"),
    ("cut before the tag", GOOD[:20], "malformed"),
    ("name with capitals", signed("Gandalf", body()), "malformed"),
    ("nobody", datagram("sauron"), "unknown_host"),
    ("nobody, garbage behind", signed("sauron", b"\xff"), "unknown_host"),
    ("other key", datagram(key=OTHER_KEY), "bad_tag"),
    ("no key", datagram(key=None), "bad_tag"),
    ("another host's key", signed("gandalf", body(), tagged_as="frodo"), "bad_tag"),
    ("key id of ours, tag of another", changed(GOOD, len(GOOD) - 1), "bad_tag"),
    ("changed body", changed(GOOD, 30), "bad_tag"),
    ("other key id", changed(GOOD, 4), "bad_tag"),
    ("garbage, signed", signed("gandalf", b"\xc1"), "malformed"),
    ("a list, signed", signed("gandalf", b"\x93\x01\x02\x03"), "malformed"),
    ("trailing bytes, signed", signed("gandalf", body() + b"\x00"), "malformed"),
    ("no boot", signed("gandalf", body(boot=None)), "malformed"),
    ("seq 0", signed("gandalf", body(seq=0)), "malformed"),
    ("seq a float", signed("gandalf", body(seq=1.0)), "malformed"),
    ("time no number", signed("gandalf", body(time="now")), "malformed"),
    ("time NaN", signed("gandalf", body(time=float("nan"))), "malformed"),
    ("interval 0", signed("gandalf", body(interval=0)), "malformed"),
    ("unknown kind", signed("gandalf", body(kind="party")), "malformed"),
    ("metric no number", signed("gandalf", body(metrics={"cpu_idle": "much"})), "malformed"),
    ("metric infinite", signed("gandalf", body(metrics={"cpu_idle": float("inf")})), "malformed"),
    ("30 s behind", datagram(at=WALL - MAX_SKEW), "accepted"),
    ("30 s ahead", datagram(at=WALL + MAX_SKEW), "accepted"),
    ("over 30 s behind", datagram(at=WALL - MAX_SKEW - 0.001), "clock"),
    ("over 30 s ahead", datagram(at=WALL + MAX_SKEW + 0.001), "clock"),
]


@pytest.mark.parametrize(("data", "result"), [row[1:] for row in SINGLE], ids=[row[0] for row in SINGLE])
def test_first_datagram(data: bytes, result: str) -> None:
    table = make(KEY)
    assert accept(table, data) == result
    assert table.counts == {**dict.fromkeys(RESULTS, 0), result: 1}
    assert bool(table.snapshot().readings) == (result == "accepted")


def test_longest_is_as_long_as_allowed() -> None:
    assert len(next(data for name, data, _ in SINGLE if name == "longest")) == MAX_DATAGRAM


ORDER = [
    ("replay", [datagram(seq=5), datagram(seq=5)]),
    ("replay of an older one", [datagram(seq=5), datagram(seq=4)]),
    ("replay with a later time", [datagram(seq=5), datagram(seq=5, at=WALL + 9)]),
]


@pytest.mark.parametrize("data", [row[1] for row in ORDER], ids=[row[0] for row in ORDER])
def test_same_boot_needs_a_higher_sequence(data: list[bytes]) -> None:
    table = make(KEY)
    assert [accept(table, d) for d in data] == ["accepted", "replay"]


@pytest.mark.parametrize(
    ("second", "result"),
    [
        (datagram(seq=6), "accepted"),
        (datagram(seq=600), "accepted"),
        (datagram(seq=6, at=WALL - 20), "accepted"),  # its clock was set back, but the sequence number is newer
        (datagram(boot=8, seq=1, at=WALL + 0.001), "accepted"),
        (datagram(boot=8, seq=1, at=WALL), "replay"),
        (datagram(boot=8, seq=99, at=WALL - 1), "replay"),
        (datagram("frodo", seq=1), "accepted"),
    ],
)
def test_after_sequence_five(second: bytes, result: str) -> None:
    table = make(KEY)
    assert accept(table, datagram(seq=5)) == "accepted"
    assert accept(table, second) == result


def test_a_boot_that_was_replaced_does_not_come_back() -> None:
    table = make(KEY)
    old = [datagram(boot=7, seq=n, at=WALL + n) for n in (1, 2, 3)]
    assert [accept(table, d) for d in old[:2]] == ["accepted", "accepted"]
    assert accept(table, datagram(boot=8, seq=1, at=WALL + 4)) == "accepted"
    assert [accept(table, d) for d in old] == ["replay"] * 3


def test_of_two_agents_with_one_name_the_first_comes_back() -> None:
    """If a second agent with the same name runs briefly by mistake, the first agent is rejected for only a minute."""
    table = make(KEY)
    assert accept(table, datagram(boot=7, seq=1, at=WALL)) == "accepted"
    assert accept(table, datagram(boot=8, seq=1, at=WALL + 1), wall=WALL + 1) == "accepted"
    results = [
        accept(table, datagram(boot=7, seq=1 + n, at=WALL + n), wall=WALL + n, now=NOW + n) for n in range(2, 70)
    ]
    assert results == ["replay"] * 60 + ["accepted"] * 8


def test_many_boots_are_not_remembered_for_ever() -> None:
    table = make(KEY)
    for n in range(90):
        assert accept(table, datagram(boot=100 + n, at=WALL + n / 10), wall=WALL, now=NOW + n) == "accepted"
    assert len(table._peers["gandalf"].replaced) == MAX_REPLACED
    assert accept(table, datagram(boot=500, at=WALL + 70), wall=WALL + 70, now=NOW + 99) == "accepted"
    assert set(table._peers["gandalf"].replaced) == {189}


def test_a_clock_set_back_does_not_let_an_earlier_boot_in() -> None:
    table = make(KEY)
    first = datagram(boot=7, seq=1, at=WALL)
    assert accept(table, first) == "accepted"
    assert accept(table, datagram(boot=8, seq=1, at=WALL + 5)) == "accepted"
    assert accept(table, datagram(boot=8, seq=2, at=WALL - 10)) == "accepted"
    assert accept(table, first) == "replay"


def test_rate_of_a_host() -> None:
    table = make(KEY)
    results = [accept(table, datagram(seq=n)) for n in range(1, int(BURST) + 21)]
    assert results == ["accepted"] * int(BURST) + ["rate"] * 20
    assert accept(table, datagram("frodo")) == "accepted"
    later = [accept(table, datagram(seq=n), now=NOW + 0.5) for n in range(200, 240)]
    assert later.count("accepted") == int(RATE / 2)
    assert accept(table, datagram(seq=999), now=NOW + 60) == "accepted"


@pytest.mark.parametrize(
    "noise",
    [
        changed(datagram(seq=1), len(GOOD) - 1),
        datagram(seq=1, key=OTHER_KEY),
        signed("gandalf", b"\xc1"),
        datagram(seq=1),
        datagram(seq=3, at=WALL - 100),
    ],
    ids=["forged", "other key", "garbage", "replayed", "old"],
)
def test_other_senders_cannot_use_up_a_host_s_rate(noise: bytes) -> None:
    table = make(KEY)
    assert accept(table, datagram(seq=1)) == "accepted"
    for _ in range(1000):
        assert accept(table, noise) != "accepted"
    assert accept(table, datagram(seq=2)) == "accepted"


@pytest.mark.parametrize("garbage", [b"\xc1", b"\x93\x01\x02\x03"])
def test_the_rate_comes_before_the_body(garbage: bytes) -> None:
    table = make(KEY)
    for n in range(int(BURST)):
        accept(table, datagram(seq=n + 1))
    assert accept(table, signed("gandalf", garbage)) == "rate"


@pytest.mark.parametrize("key", [KEY, OTHER_KEY])
def test_during_a_rotation_both_keys_count(key: MasterKey) -> None:
    assert accept(make(KEY, OTHER_KEY), datagram(key=key)) == "accepted"


FARM_6 = {"arwen": ReportingHost(("arwen.hobbit",), ("192.0.2.9", "2001:db8::9", "fe80::9"))}


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("192.0.2.9", "accepted"),
        ("::ffff:192.0.2.9", "accepted"),
        ("2001:db8::9", "accepted"),
        ("2001:0db8:0:0::9", "accepted"),
        ("fe80::9%eth0", "accepted"),
        ("fe80::9%2", "accepted"),
        ("192.0.2.10", "bad_tag"),
        ("2001:db8::a", "bad_tag"),
        ("::192.0.2.9", "bad_tag"),
        ("", "bad_tag"),
        ("@nonsense", "bad_tag"),
    ],
)
@pytest.mark.parametrize("key", [None, KEY])
def test_without_keys_the_source_counts(source: str, result: str, key: MasterKey | None) -> None:
    assert ReportTable(FARM_6, (), THESIS).accept(datagram("arwen", key=key), source, NOW, WALL) == result


def test_without_keys_a_host_speaks_for_itself_alone() -> None:
    table = make()
    assert accept(table, datagram("gandalf", key=None), source=ADDRESSES["frodo"]) == "bad_tag"
    assert accept(table, datagram("gandalf", key=None), source=ADDRESSES["gandalf"]) == "accepted"


@given(st.binary(max_size=1500), st.sampled_from([(), (KEY,)]), st.text(max_size=40))
@example(GOOD, (KEY,), "")
def test_any_bytes_are_counted_and_never_raise(data: bytes, keys: tuple[MasterKey, ...], source: str) -> None:
    table = make(*keys)
    result = table.accept(data, source, NOW, WALL)
    assert table.counts[result] == 1
    assert result in (*REASONS, "accepted")


@given(st.binary(max_size=300))
def test_any_signed_body_is_counted_and_never_raises(data: bytes) -> None:
    assert accept(make(KEY), signed("gandalf", data)) in ("malformed", "clock", "accepted")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=8) | st.binary(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    ),
    st.sampled_from(["boot", "seq", "time", "interval", "kind", "metrics", "alarm", "other"]),
)
def test_any_value_of_any_key_is_counted_and_never_raises(value: object, key: str) -> None:
    packed = body(**{key: value})
    if len(packed) < 1000:
        assert accept(make(KEY), signed("gandalf", packed)) in ("malformed", "clock", "accepted")


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(-30, 90), st.sampled_from([0, 1, 10, 30, 60])),
        max_size=30,
    )
)
@example([(1, 2, -1, 0), (2, 1, 0, 0), (1, 1, 1, 0), (1, 2, -1, 0)])
def test_nothing_is_accepted_twice(reports: list[tuple[int, int, int, int]]) -> None:
    """No datagram is counted twice, whatever the order of boots, sequence numbers and times."""
    table = make(KEY)
    accepted = set()
    wall = WALL
    for boot, seq, offset, later in reports:
        wall += later
        data = datagram(boot=boot, seq=seq, at=WALL + offset, metrics={})
        if accept(table, data, wall=wall) == "accepted":
            assert data not in accepted
            accepted.add(data)
