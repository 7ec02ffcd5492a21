"""Tests of history samples: differences, new reports, silent members, and a limit on the number of names."""

from __future__ import annotations

import tracemalloc
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.history import history_sample
from lbdns.history.history_sample import (
    EXACT,
    MAX_METRICS,
    MAX_NAMES,
    OTHERS,
    SERVER,
    ColumnBuilder,
    HistoryMoment,
    metric_rows,
)
from lbdns.model.snapshot import NO_METRICS, Reading
from tests.history.history_samples import pool, sample
from tests.needs import needs


def moments(*seconds: int) -> list[HistoryMoment]:
    columns = ColumnBuilder()
    return [columns.build(sample(second)) for second in seconds]


def test_counts_are_differences() -> None:
    first, second, third = moments(0, 1, 4)
    web = "web", ""
    assert all(x != x for x in first.groups[web].rows["answers"])  # since an unknown time
    assert (second.groups[web].rows["answers"], second.seconds) == ([10.0, 20.0], 1.0)
    assert (third.groups[web].rows["answers"], third.seconds) == ([30.0, 60.0], 3.0)
    assert third.groups[SERVER, "types"].names == ("A", "AAAA")
    assert third.groups[SERVER, "types"].rows == {"types": [90.0, 15.0]}
    assert third.groups[SERVER, "queries"].rows == {"queries": [105.0]}
    assert third.groups[SERVER, "rcodes"].rows == {"rcodes": [105.0]}


def test_a_count_that_begins_anew_is_unknown_once() -> None:
    columns = ColumnBuilder()
    columns.build(sample(0, pool(0, {"a": 1.0}, answers=(500,)), types={"A": 10}))
    again = columns.build(sample(1, pool(1, {"a": 1.0}, answers=(3,)), types={"A": 2}))
    assert all(x != x for x in again.groups["web", ""].rows["answers"])
    assert columns.build(sample(2, pool(2, {"a": 1.0}, answers=(7,)))).groups["web", ""].rows["answers"] == [4.0]


def test_a_report_is_new_once() -> None:
    columns = ColumnBuilder()
    old = Reading(0.5, 1.0, 7, {"cpu_idle": 3.0})
    rows = [
        columns.build(sample(second, pool(second, {"a": 1.0}, readings=(reading,)))).groups["web", ""].rows
        for second, reading in ((1, old), (2, old), (3, replace(old, received=2.5)))
    ]
    assert [row["reports"] for row in rows] == [[1.0], [0.0], [1.0]]
    assert [row["age_s"] for row in rows] == [[0.5], [1.5], [0.5]]


def test_a_silent_member_has_an_age_but_no_values() -> None:
    columns = ColumnBuilder()
    last = Reading(0.5, 1.0, 7, {"cpu_idle": 3.0})
    rows = [columns.build(sample(s, pool(s, {"a": 1.0}, readings=(last,)))).groups["web", ""].rows for s in (1, 3, 4)]
    assert [list(row["cpu_idle"]) == [3.0] for row in rows] == [True, True, False]  # stale after 3 intervals: 3.5
    assert [row["score"] == [7.0] for row in rows] == [True, True, False]
    assert [row["age_s"] for row in rows] == [[0.5], [2.5], [3.5]]


def test_a_member_that_never_reported_has_no_values() -> None:
    rows = (
        ColumnBuilder()
        .build(sample(0, pool(0, {"a": 1.0}, readings=(None,), states=("unknown",))))
        .groups["web", ""]
        .rows
    )
    assert rows["usable"] == [0.0]
    for name in ("cpu_idle", "score", "age_s", "interval"):
        assert rows[name][0] != rows[name][0]


def test_a_bye_is_recorded_with_its_metrics_once() -> None:
    columns = ColumnBuilder()
    bye = Reading(0.9, 1.0, 7, {"cpu_idle": 3.0}, gone=True)
    first, second = (
        columns.build(sample(s, pool(s, {"a": 1.0}, readings=(bye,)))).groups["web", ""].rows for s in (1, 2)
    )
    assert (first["gone"], list(first["cpu_idle"])) == ([1.0], [3.0])
    assert second["gone"] == [1.0]
    assert second["cpu_idle"][0] != second["cpu_idle"][0]


def test_alarms_are_by_member() -> None:
    alarmed = Reading(0.5, 1.0, 7, alarm="disk full")
    moment = ColumnBuilder().build(sample(1, pool(1, {"a": 1.0, "b": 2.0}, readings=(None, alarmed))))
    assert moment.alarms == {("web", "b"): "disk full"}


def test_unknown_metrics_are_recorded_up_to_a_limit() -> None:
    columns = ColumnBuilder()

    def rows(second: int, metrics: dict[str, float]) -> Mapping[str, Sequence[float]]:
        reading = Reading(float(second), 1.0, 7, metrics)
        return columns.build(sample(second, pool(second, {"a": 1.0}, readings=(reading,)))).groups["web", ""].rows

    assert rows(0, {"temperature": 40.0, "score": 99.0, "state": 99.0})["temperature"][0] == 40.0
    assert rows(1, {"score": 99.0})["score"] == [7.0]  # a metric must not replace the score's column
    many = rows(2, {f"m{i}": 1.0 for i in range(500)})
    assert len(many) <= MAX_METRICS + 8
    assert rows(3, {"temperature": 41.0})["temperature"][0] == 41.0
    assert len(rows(4, {f"n{i}": 1.0 for i in range(500)})) == len(many)


def test_rare_types_are_counted_together() -> None:
    columns = ColumnBuilder()
    asked = {f"TYPE{i}": 5 for i in range(MAX_NAMES)}
    columns.build(sample(0, types=asked))
    more = {**dict.fromkeys(asked, 6), "TYPE9999": 40, "TYPE9998": 2}
    group = columns.build(sample(1, types=more)).groups[SERVER, "types"]
    assert len(group.names) == MAX_NAMES + 1
    assert group.names[-1] == OTHERS
    assert sum(group.rows["types"]) == pytest.approx(MAX_NAMES + 42)
    assert group.rows["types"][-1] == 42


def test_the_order_of_types_changes_nothing() -> None:
    columns = ColumnBuilder()
    columns.build(sample(0, types={"A": 1, "MX": 1}))
    one = columns.build(sample(1, types={"A": 2, "MX": 1}))
    two = columns.build(sample(2, types={"MX": 4, "A": 2}))
    assert one.groups[SERVER, "types"].names == two.groups[SERVER, "types"].names
    assert two.groups[SERVER, "types"].rows["types"] == [0.0, 3.0]


def test_packing_changes_no_values_except_by_rounding() -> None:
    (moment,) = moments(0)
    before = {key: dict(group.rows) for key, group in moment.groups.items()}
    moment.pack()
    for key, group in moment.groups.items():
        assert list(group.rows) == list(before[key])
        for column, row in group.rows.items():
            assert isinstance(row, array)
            nearly = {} if column in EXACT else {"rel": 1e-6}
            assert list(row) == pytest.approx(list(before[key][column]), nan_ok=True, **nearly)


def test_a_packed_moment_takes_little_memory() -> None:
    members = {f"m{i}": float(i) for i in range(200)}
    metrics = {f"metric{i}": i + 0.5 for i in range(20)}
    readings = tuple(Reading(0.5, 1.0, 7, {name: value * i for name, value in metrics.items()}) for i in range(200))
    source = sample(1, pool(1, members, readings=readings))
    columns = ColumnBuilder()
    columns.build(source)
    tracemalloc.start()
    try:
        moment = columns.build(source)
        moment.pack()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    values = sum(len(group.names) * len(group.rows) for group in moment.groups.values())
    assert used < 12 * values, "bytes; lists of numbers take 32"


VALUES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9)
METRICS = st.dictionaries(st.sampled_from(["cpu_idle", "requests_total", "colour"]), VALUES)


@needs(native=True)
@given(st.lists(METRICS | st.just(NO_METRICS)))
def test_the_native_part_makes_the_same_rows(metrics: list[Mapping[str, float]]) -> None:
    names = ["requests_total", "cpu_idle", "run_queue"]
    found = metric_rows(metrics, names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_sample, "AVAILABLE", False)
        expected = metric_rows(metrics, names)
    assert list(found) == names
    for name, row in found.items():
        assert isinstance(row, array)
        assert repr(row) == repr(expected[name])


@needs(native=True)
def test_python_makes_the_rows_of_other_mappings() -> None:
    (row,) = metric_rows([MappingProxyType({"cpu_idle": 5.0}), {}], ["cpu_idle"]).values()
    assert repr(list(row)) == "[5.0, nan]"
