"""Numbers in JSON documents."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.sources.json_field import JsonField, parse_json_field

DOCUMENT = (
    b'{"queue": {"length": 7, "limit": 1.5, "name": "mail", "full": false}, "workers": [{"busy": 2}, 3], "big": 1e999}'
)


@pytest.mark.parametrize(
    ("path", "number"), [("queue.length", 7), ("queue.limit", 1.5), ("workers.0.busy", 2), ("workers.1", 3)]
)
def test_fields(path: str, number: float) -> None:
    found = parse_json_field(path).find(DOCUMENT)
    assert (found, type(found)) == (number, float)


def test_a_document_may_be_the_number() -> None:
    assert JsonField().find(b" 42\n") == 42.0


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("queue.size", "'queue' has no field 'size'; the fields are: length, limit, name, full"),
        ("tail", "the document has no field 'tail'; the fields are: queue, workers, big"),
        ("workers.2", "'workers' has no field '2'; the list has 2 elements"),
        ("workers.busy", "'workers' has no field 'busy'"),
        ("workers.-1", "has no field '-1'"),
        ("queue.length.x", "'queue.length' has no field 'x'"),
        ("queue", "the field 'queue' must be a number, not {"),
        ("queue.name", "the field 'queue.name' must be a number, not 'mail'"),
        ("queue.full", "the field 'queue.full' must be a number, not False"),
        ("big", "'inf' is not a finite number"),
    ],
)
def test_fields_that_are_no_numbers(path: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        parse_json_field(path).find(DOCUMENT)


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 100_000, b"\xff", b"<html>"])
def test_what_is_no_json(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a JSON document"):
        JsonField().find(text)


@pytest.mark.parametrize("path", ["", ".", "a..b", "a."])
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"must be a path such as queue\.length"):
        parse_json_field(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(VALUES, st.lists(st.sampled_from(["a", "0", "1", ""]), max_size=3))
def test_any_document_gives_a_finite_number_or_a_value_error(value: object, path: list[str]) -> None:
    try:
        assert math.isfinite(JsonField(tuple(path)).find(json.dumps(value).encode()))
    except ValueError:
        return


@given(st.binary(max_size=50))
def test_any_bytes_give_a_finite_number_or_a_value_error(text: bytes) -> None:
    try:
        assert math.isfinite(JsonField().find(text))
    except ValueError:
        return
