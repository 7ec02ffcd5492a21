"""Tests of the changes for followers: the native extension writes and reads the same as Python."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lbdns.model.farm import Farm
from lbdns.model.snapshot import FailedCheck, Reading
from lbdns.native_extension import AVAILABLE
from lbdns_collector.status.status_document import NO_CHANGES, ReportChanges, to_json
from lbdns_collector.status.status_document_reading import ChangesReader, read_status
from tests.collector.collector_fixtures import make_farm
from tests.config.config_files import pool_table
from tests.needs import needs

if AVAILABLE:
    import lbdns_native

pytestmark = needs(native=True)

NOW = 1000.0
FULL_NAMES = ["gandalf.hobbit", "frodo.hobbit", "bilbo.hobbit"]
NAMES = st.sampled_from(["cpu_idle", "run_queue", "requests_total", "Größe", 'a"b', "\\", "\n", "\x7f", "\U0001f600"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**9), 10**9).map(lambda n: n / 1000)
INTERVALS = st.floats(0, 1e9, exclude_min=True)
CHECKS = st.lists(st.builds(FailedCheck, st.sampled_from(["web", "mail", "other"]), st.text(max_size=8)), max_size=3)
SCORES = st.none() | st.integers(-(2**63), 2**63 - 1)
READINGS = st.builds(
    Reading,
    received=st.floats(-1e9, NOW + 1) | st.integers(0, 16 * 1000).map(lambda n: NOW - n / 16000),
    interval=INTERVALS,
    score=SCORES,
    metrics=st.dictionaries(NAMES, NUMBERS, max_size=5),
    alarm=st.text(max_size=8),
    gone=st.booleans(),
    shadow_score=SCORES,
    failed_checks=CHECKS.map(tuple),
)
CHANGES = st.dictionaries(st.sampled_from([*FULL_NAMES, "sauron.mordor"]), READINGS)


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    """Two pools that share a member."""
    more = pool_table("frodo", name="mail", more='names = { mail = "best" }')
    return make_farm(tmp_path_factory.mktemp("farm"), more=more)


def read_natively(data: bytes) -> dict[str, Any] | None:
    return lbdns_native.ChangesReader(Reading, FailedCheck).read(data, NOW)


@given(CHANGES)
def test_both_write_the_same(farm: Farm, readings: dict[str, Reading]) -> None:
    changes = ReportChanges(farm)
    written = to_json(changes.build(readings, readings, NOW))
    assert changes.encode([*readings], readings, NOW) == written
    if all(reading.alarm.isprintable() for reading in readings.values()):
        assert lbdns_native.encode_changes([*readings], readings, changes._places, NOW) == written


@given(NUMBERS)
@example(-0.0)
@example(1e16)
@example(9999999999999998.0)
@example(1e-4)
@example(9.999e-5)
@example(5e-324)
@example(999999999999.999)
@example(1e12)
def test_both_write_and_read_the_same_numbers(farm: Farm, number: float) -> None:
    readings = {"frodo.hobbit": Reading(NOW, 1.0, 1, {"cpu_idle": number})}
    changes = ReportChanges(farm)
    written = to_json(changes.build(readings, readings, NOW))
    assert lbdns_native.encode_changes([*readings], readings, changes._places, NOW) == written
    assert read_natively(written) == readings
    read = ChangesReader("auto").read(written, NOW)["frodo.hobbit"]
    assert read is not None
    assert math.copysign(1, read.metrics["cpu_idle"]) == math.copysign(1, number)


@pytest.mark.parametrize(
    "reading",
    [
        Reading(NOW, 1.0, True),
        Reading(NOW, 1.0, 2**63),
        Reading(NOW, 1, 5),
        Reading(int(NOW), 1.0, 5),
        Reading(NOW, 1.0, 5, {"cpu_idle": 5}),
        Reading(NOW, 1.0, 5, {"\ud800": 5.0}),
        Reading(NOW, 1.0, 5, alarm="\ud800"),
    ],
)
def test_python_writes_what_the_extension_does_not(farm: Farm, reading: Reading) -> None:
    changes, readings = ReportChanges(farm), {"frodo.hobbit": reading}
    assert lbdns_native.encode_changes([*readings], readings, changes._places, NOW) is None
    assert changes.encode([*readings], readings, NOW) == to_json(changes.build(readings, readings, NOW))


def test_members_without_a_pool_are_left_out(farm: Farm) -> None:
    assert ReportChanges(farm).encode(["sauron.mordor"], {"sauron.mordor": Reading(NOW, 1.0, 1)}, NOW) == NO_CHANGES


def test_a_number_that_is_not_finite_is_not_written(farm: Farm) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        ReportChanges(farm).encode(["frodo.hobbit"], {"frodo.hobbit": Reading(NOW, 1.0, 1, {"a": math.inf})}, NOW)


def test_the_python_plane_does_not_use_the_extension(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lbdns_native, "encode_changes", None)
    monkeypatch.setattr(lbdns_native, "ChangesReader", None)
    config = replace(farm.config, server=replace(farm.config.server, plane="python"))
    readings = {"frodo.hobbit": Reading(NOW, 1.0, 1)}
    written = ReportChanges(replace(farm, config=config)).encode([*readings], readings, NOW)
    assert ChangesReader("python").read(written, NOW) == readings


@given(CHANGES)
def test_both_read_the_same(farm: Farm, readings: dict[str, Reading]) -> None:
    written = ReportChanges(farm).encode([*readings], readings, NOW)
    expected = read_status(json.loads(written), NOW)
    assert ChangesReader("auto").read(written, NOW) == expected
    found = read_natively(written)
    assert found is None or found == expected
    if b"\\" not in written and written != NO_CHANGES:
        assert found is not None
        assert [type(value) for value in found.values()] == [Reading] * len(found)


MEMBER = '{"name":"m","score":5,"age_s":0.5,"interval_s":1.0,"metrics":{"a":1.5,"b":2},"alarm":"","gone":false}'


def whole(members: str) -> bytes:
    return f'{{"pools":[{{"name":"web","zone":"hobbit","members":[{members}]}}]}}'.encode()


def outcome(data: bytes) -> object:
    """Return what Python reads, or None if it finds an error."""
    try:
        return read_status(json.loads(data), NOW)
    except (ValueError, OverflowError):
        return None


PIECES = [
    "null",
    "-0",
    "01",
    "1.",
    ".5",
    "+1",
    "-",
    "1e5",
    "1E+5",
    "1e",
    "1e400",
    "10000000000000000000",
    "NaN",
    "true",
]


@given(
    st.sampled_from(["5", "0.5", "1.0", "1.5", "2", "false"]),
    st.sampled_from(PIECES) | st.from_regex(r"-?\d{1,20}(\.\d{1,20})?(e-?\d{1,3})?", fullmatch=True),
)
def test_what_the_extension_reads_is_what_python_reads(old: str, new: str) -> None:
    data = whole(MEMBER.replace(old, new, 1))
    found = read_natively(data)
    assert found is None or repr(found) == repr(outcome(data))
    if found:
        (reading,), (expected,) = found.values(), outcome(data).values()  # type: ignore[attr-defined]
        assert repr(reading.metrics) == repr(expected.metrics)


@given(st.integers(0, len(MEMBER)), st.integers(0, 3), st.text('{}[]",:\\ \nax\x000é', max_size=3))
def test_damaged_text_is_left_to_python(at: int, removed: int, added: str) -> None:
    data = whole(MEMBER[:at] + added + MEMBER[at + removed :])
    found = read_natively(data)
    assert found is None or found == outcome(data)


@pytest.mark.parametrize(
    "data", [b"", b"{", NO_CHANGES, whole(""), whole(MEMBER) + b" ", whole(MEMBER)[:-1], b"\xff" * 9]
)
def test_other_text_is_left_to_python(data: bytes) -> None:
    assert read_natively(data) is None


def test_the_failed_checks_of_both_pools_count(farm: Farm) -> None:
    failed = (FailedCheck("web", "tcp:80: refused"), FailedCheck("mail", "tcp:25: refused"))
    readings = {"frodo.hobbit": Reading(NOW, 1.0, 5, failed_checks=failed)}
    found = read_natively(ReportChanges(farm).encode([*readings], readings, NOW))
    assert found == readings
