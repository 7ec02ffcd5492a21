"""Tests of reading a status document: members, ages, and invalid documents."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.farm import Farm
from lbdns.model.snapshot import Reading
from lbdns_collector.status.status_document import build_status
from lbdns_collector.status.status_document_reading import read_status
from tests.collector.status.made_up_status import NOW, status_inputs

finite = st.floats(allow_nan=False, allow_infinity=False)
readings = st.builds(
    Reading,
    received=st.floats(0, NOW),
    interval=st.floats(0.1, 86_400),
    score=st.integers(0, 10**15),
    metrics=st.dictionaries(st.text(max_size=20), finite, max_size=5),
    alarm=st.text(max_size=20),
    gone=st.booleans(),
)


@given(st.dictionaries(st.sampled_from(["bilbo", "frodo", "gandalf"]), readings))
def test_what_is_written_is_read(farm: Farm, known: dict[str, Reading]) -> None:
    document = json.loads(json.dumps(build_status(status_inputs(farm, known))))
    found = read_status(document, NOW)
    assert set(found) == {"bilbo.hobbit", "frodo.hobbit", "gandalf.hobbit"}
    for name, again in found.items():
        before = known.get(name.removesuffix(".hobbit"))
        if before is None or again is None:
            assert again is before
            continue
        assert again.received == pytest.approx(before.received, abs=0.001)  # ages are rounded to milliseconds
        assert (again.interval, again.score, again.alarm) == (before.interval, before.score, before.alarm)
        assert (again.metrics, again.gone) == (before.metrics, before.gone)


GOOD = {"name": "a", "age_s": 1, "interval_s": 1, "score": 5, "metrics": {"x": 1}}


def document(**changes: object) -> dict[str, Any]:
    return {"pools": [{"zone": "z", "members": [{**GOOD, **changes}]}]}


def test_members_of_the_root_zone() -> None:
    assert set(read_status({"pools": [{"zone": "", "members": [GOOD]}]}, NOW)) == {"a"}


def test_an_age_before_all_time_is_now() -> None:
    found = read_status(document(age_s=-5), NOW)["a.z"]
    assert found is not None
    assert found.received == NOW


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (None, "pools"),
        ([], "pools"),
        ({}, "pools"),
        ({"pools": 3}, "pools"),
        ({"pools": [3]}, "pools"),
        ({"pools": [{"zone": "z"}]}, "members"),
        ({"pools": [{"members": []}]}, "zone"),
        (document(name=3), "name"),
        (document(age_s="old"), "age_s"),
        (document(age_s=math.nan), "age_s"),
        (document(age_s=True), "age_s"),
        (document(interval_s=None), "interval_s"),
        (document(interval_s=0), "interval_s"),
        (document(score="high"), "score"),
        (document(score=1.5), "score"),
        (document(metrics=[]), "metrics"),
        (document(metrics={"x": None}), "x"),
        (document(metrics={"x": math.inf}), "x"),
        (document(alarm=1), "alarm"),
        (document(gone=0), "gone"),
    ],
)
def test_an_invalid_status_is_rejected(bad: object, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        read_status(bad, NOW)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["pools", "zone", "members", "name", "age_s", "interval_s", "score", "metrics"]),
                inner,
                max_size=6,
            )
        ),
    )
)
def test_anything_is_read_or_refused(tree: object) -> None:
    try:
        found = read_status(tree, NOW)
    except ValueError:
        return
    assert all(isinstance(value, Reading) or value is None for value in found.values())
