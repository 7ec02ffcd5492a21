"""Tests of overrides: their combined effect, and their representation as plain data."""

from __future__ import annotations

import json
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.overrides import (
    GREATEST_FACTOR,
    KINDS,
    LEAST_FACTOR,
    NO_OVERRIDES,
    NO_POOL_OVERRIDES,
    Override,
    Overrides,
    PoolOverrides,
    read_override,
)

_OVERRIDES = st.builds(
    Override,
    st.sampled_from(KINDS),
    st.sampled_from(["a.z", "b.z", "c.z"]),
    st.sampled_from(["", "web", "mail"]),
    st.floats(LEAST_FACTOR, GREATEST_FACTOR),
    st.text(max_size=5),
    st.text(max_size=20),
    st.floats(0, 2e9),
    st.floats(0, 4e9) | st.just(math.inf),
)


@given(_OVERRIDES)
def test_a_document_is_read_as_it_was_written(override: Override) -> None:
    assert read_override(json.loads(json.dumps(override.document()))) == override


@pytest.mark.parametrize(
    "change",
    [{"kind": "dance"}, {"kind": None}, {"member": ""}, {"member": 5}, {"pool": None}, {"reason": 1}, {"factor": 0},
     {"factor": 101}, {"factor": "x"}, {"factor": math.nan}, {"since": math.inf}, {"until": math.nan}, {"by": None}],
)  # fmt: skip
def test_what_is_no_override(change: dict[str, object]) -> None:
    document = Override("drain", "a.z").document()
    assert read_override(document)
    with pytest.raises(ValueError, match="not a valid override"):
        read_override({**document, **change})


@pytest.mark.parametrize("value", [None, 5, [], "drain", {}, {"kind": "drain"}])
def test_what_is_not_even_a_document(value: object) -> None:
    with pytest.raises(ValueError, match="not a valid override"):
        read_override(value)


@pytest.mark.parametrize(
    ("override", "text"),
    [
        (Override("drain", "a.z", by="root", reason="new kernel"), "drained by root: new kernel"),
        (Override("drain", "a.z"), "drained"),
        (Override("up", "a.z", by="root"), "forced up by root"),
        (Override("down", "a.z", reason="no"), "forced down: no"),
        (Override("weight", "a.z", factor=0.5, by="uid 5"), "weight 0.5 by uid 5"),
    ],
)
def test_in_words(override: Override, text: str) -> None:
    assert override.text() == text


def test_in_words_with_its_end() -> None:
    assert Override("drain", "a.z", by="root").text(" until 14:05") == "drained until 14:05 by root"


def test_of_one_slot_there_is_one() -> None:
    up, down = Override("up", "a.z"), Override("down", "a.z")
    drain, elsewhere = Override("drain", "a.z"), Override("down", "a.z", "web")
    found = NO_OVERRIDES.put(up).put(drain).put(elsewhere).put(down)
    assert found.items == (drain, elsewhere, down)
    assert found.without([drain, up]).items == (elsewhere, down)


def test_a_pools_own_goes_before_that_for_every_pool() -> None:
    everywhere, own = Override("down", "a.z"), Override("up", "a.z", "web")
    for items in ((everywhere, own), (own, everywhere)):
        overrides = Overrides(items)
        assert overrides.of("web", "a.z") == [own]
        assert overrides.of("mail", "a.z") == [everywhere]
        assert overrides.of("web", "b.z") == []
        assert (overrides.for_pool("web").forced_state("a.z"), overrides.for_pool("mail").forced_state("a.z")) == (
            "up",
            "down",
        )


def test_a_drain_counts_before_force() -> None:
    overrides = Overrides((Override("drain", "a.z", "web"), Override("up", "a.z"), Override("weight", "a.z", factor=2)))
    assert overrides.for_pool("web") == PoolOverrides({"a.z": "drained"}, {"a.z": 2.0})
    assert overrides.for_pool("mail") == PoolOverrides({"a.z": "up"}, {"a.z": 2.0})
    assert NO_OVERRIDES.for_pool("web") is NO_POOL_OVERRIDES


@given(st.lists(_OVERRIDES, max_size=12))
def test_steering_is_what_is_in_force_for_each(items: list[Override]) -> None:
    overrides = NO_OVERRIDES
    for item in items:
        overrides = overrides.put(item)
    assert len({o.place for o in overrides.items}) == len(overrides.items)
    for pool in ("web", "mail", "other"):
        pool_overrides = overrides.for_pool(pool)
        for member in ("a.z", "b.z", "c.z"):
            kinds = {o.kind: o for o in overrides.of(pool, member)}
            assert all(o.member == member and o.pool in ("", pool) for o in kinds.values())
            assert (pool_overrides.forced_state(member) == "drained") == ("drain" in kinds)
            assert pool_overrides.factors.get(member) == (kinds["weight"].factor if "weight" in kinds else None)
    assert pickle.loads(pickle.dumps(overrides)) == overrides
    assert hash(overrides) == hash(Overrides(overrides.items))


def test_ends() -> None:
    soon, late, never = (Override("drain", name, until=at) for name, at in (("a", 5.0), ("b", 9.0), ("c", math.inf)))
    overrides = Overrides((late, soon, never))
    assert overrides.next_end == 5.0
    assert overrides.ended(4.9) == []
    assert overrides.ended(5.0) == [soon]
    assert overrides.ended(1e12) == [late, soon]
    assert NO_OVERRIDES.next_end == Overrides((never,)).next_end == math.inf


def test_what_they_come_to_is_worked_out_once() -> None:
    """Every report looks up all pools, and every page all members, so effects must be computed only once."""
    overrides = Overrides(tuple(Override("drain", f"m{n}.z") for n in range(5000)))
    assert len(overrides.for_pool("web").forced) == 5000
    for n in range(5000):
        assert overrides.of("web", f"m{n}.z")
    assert overrides.for_pool("web") is overrides.for_pool("web")
