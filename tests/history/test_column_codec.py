"""Tests of the column codec: decoded values, their precision, and the size of the encoded data."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lbdns.history.column_codec import ABSENT, _encode_exact_in_python, decode, decode_texts, encode, encode_texts
from tests.needs import needs

ROUNDING = 2.0**-11  # half of the last of 11 significant bits

measured = st.one_of(st.just(ABSENT), st.floats(-1e30, 1e30), st.integers(-5000, 5000).map(float))
counters = st.one_of(st.just(ABSENT), st.integers(0, 2**53).map(float), st.floats(0, 1e12))


@settings(deadline=None)
@given(st.lists(measured))
def test_measurements_come_back_within_a_2000th(values: list[float]) -> None:
    found = decode(encode(values))
    assert len(found) == len(values)
    for value, back in zip(values, found, strict=True):
        if math.isnan(value):
            assert math.isnan(back)
        else:
            assert back == pytest.approx(value, rel=ROUNDING, abs=1e-36)


@settings(deadline=None)
@given(st.lists(st.one_of(st.just(ABSENT), st.integers(-2048, 2048).map(float))))
def test_small_whole_numbers_are_exact(values: list[float]) -> None:
    assert list(map(repr, decode(encode(values)))) == [repr(value) for value in values]


@settings(deadline=None)
@given(st.lists(counters))
def test_exact_values_keep_a_millionth(values: list[float]) -> None:
    for value, back in zip(values, decode(encode(values, exact=True)), strict=True):
        if math.isnan(value):
            assert math.isnan(back)
        elif value.is_integer():
            assert back == value or abs(back - value) <= 1e-6 * max(1.0, value * 1e-9)
        else:
            assert back == pytest.approx(value, rel=1e-15, abs=5.1e-7)


@settings(deadline=None)
@given(st.lists(st.integers(-(2**60), 2**60).map(float)))
def test_whole_numbers_are_exact(values: list[float]) -> None:
    assert decode(encode(values, exact=True)) == values


@needs(native=True)
@settings(deadline=None)
@given(st.lists(st.one_of(counters, measured, st.sampled_from([-0.0, 2.0**61, -(2.0**61), 2.0**60, 0.5e-6, 1.5e-6]))))
@example([2.0**61 / 1e6, 0.5])
def test_the_native_part_packs_exact_columns_alike(values: list[float]) -> None:
    assert encode(values, exact=True) == _encode_exact_in_python(values)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=1e300), min_size=1))
def test_values_beyond_the_range_of_steps_are_exact(values: list[float]) -> None:
    assert decode(encode(values, exact=True)) == values


def test_too_large_for_rounding_is_infinite_and_spoils_no_other() -> None:
    assert decode(encode([1.0, 1e300, -1e300, 2.0])) == [1.0, math.inf, -math.inf, 2.0]


@settings(deadline=None)
@given(st.binary())
def test_an_invalid_column_is_rejected(data: bytes) -> None:
    try:
        found = decode(data)
    except ValueError:
        return
    assert all(isinstance(value, float) for value in found)


@settings(deadline=None)
@given(st.lists(measured, min_size=1), st.booleans(), st.data())
def test_a_column_that_is_cut_off_is_refused(values: list[float], exact: bool, data: st.DataObject) -> None:
    blob = encode(values, exact=exact)
    with pytest.raises(ValueError, match="column"):
        decode(blob[: data.draw(st.integers(0, len(blob) - 1))])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.text())))
def test_texts_come_back(texts: list[tuple[int, int, str]]) -> None:
    assert decode_texts(encode_texts(texts)) == texts


@given(st.binary())
def test_invalid_texts_are_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match="column"):
        decode_texts(data)


def test_noise_takes_less_than_two_bytes_and_constants_nearly_nothing() -> None:
    chance = Random(1)
    assert len(encode([100 * chance.random() for _ in range(2000)])) < 2000 * 2
    assert len(encode([4.0] * 2000)) < 50
    counts = [1e9 + second * 40.0 for second in range(2000)]
    assert len(encode(counts, exact=True)) < 120
