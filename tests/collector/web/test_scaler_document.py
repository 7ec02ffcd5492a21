"""Tests of the check of a scaler's status document."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_collector.web.scaler_document import MAX_ELEMENT, NotScalerError, check_document
from tests.collector.web.fake_scaler import scaler_server, scaler_status


def steps(body: bytes) -> int:
    """Return the number of steps in which the document is checked. Raises NotScalerError."""
    return sum(1 for _ in check_document(body))


def encoded(document: object, **how: Any) -> bytes:
    return json.dumps(document, **how).encode()


def test_documents_of_a_scaler_fit() -> None:
    document = scaler_status()
    assert steps(encoded(document)) == len(document) + 1 + len(document["servers"]) + len(document["rounds"])
    assert steps(encoded(document, indent=2))
    first: dict[str, Any] = {
        "demand": None,
        "servers": [],
        "rounds": [],
        "counts": {},
        "wanted": None,
        "recommended": None,
    }
    assert steps(encoded({**document, **first, "later": {"more": [1]}}))


def test_a_long_document_is_checked_in_many_short_steps() -> None:
    now = time.time()
    servers = [scaler_server(f"web-{i}", "in service", now, "x" * 200) for i in range(1000)]
    body = encoded(scaler_status(servers))
    found = []
    for _ in range(5):  # other work of this machine, or of this process, may lengthen a step
        longest, count, began = 0.0, 0, time.thread_time()
        for _ in check_document(body):
            longest, began = max(longest, time.thread_time() - began), time.thread_time()
            count += 1
        assert count > 1000
        found.append(longest)
    assert min(found) < 0.01


def without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.pop(key)


def with_(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(changes)


NOW = 1.8e9
ROUND = {"time": NOW, "requests_per_s": 1.0, "in_service": 1, "recommended": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("farm"), "it has no key 'farm'"),
        (without("rounds"), "it has no key 'rounds'"),
        (with_(farm=5), "its key 'farm' is invalid"),
        (with_(trouble=None), "its key 'trouble' is invalid"),
        (with_(counts=[1]), "its key 'counts' is invalid"),
        (with_(farm=[]), "its key 'farm' is invalid"),
        (with_(counts={"failed": "1"}), "its key 'counts' is invalid"),
        (with_(minimum=True), "its key 'minimum' is invalid"),
        (with_(started=-1.0), "its key 'started' is invalid"),
        (with_(demand={"time": NOW}), "its key 'demand' is invalid"),
        (with_(servers={}), r"it is not a JSON object: '\[' is missing"),
        (with_(servers=[5]), "its key 'servers' contains an invalid element"),
        (with_(servers=[scaler_server("web-1", "starting", 1e300)]), "its key 'servers' contains an invalid element"),
        (with_(servers=[scaler_server("web-1", 5, NOW)]), "its key 'servers' contains an invalid element"),  # type: ignore[arg-type]
        (with_(rounds=[ROUND | {"in_service": "1"}]), "its key 'rounds' contains an invalid element"),
        (with_(farm="x" * MAX_ELEMENT), f"values of at most {MAX_ELEMENT} characters"),
        (with_(later=math.nan), "it is not a JSON object with values"),
    ],
)
def test_other_documents_do_not_fit(change: Callable[[dict[str, Any]], None], message: str) -> None:
    document = scaler_status()
    change(document)
    with pytest.raises(NotScalerError, match=message):
        steps(encoded(document))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "it is not a JSON object"),
        (b"<!doctype html>", "it is not a JSON object"),
        (b"[]", "it is not a JSON object"),
        (b"{}", "it has no key"),
        (b"{} {}", "it must end after the JSON object"),
        (b'{"farm": "a", "farm": "b"}', "the key 'farm' is not a string, or occurs twice"),
        (b'{"farm": "a",}', "it is not a JSON object"),
        (b'{"later": [1,]}', "it is not a JSON object"),
        (b'{"later": [1 2]}', "it is not a JSON object"),
        (b'{,"later": 1}', "it is not a JSON object"),
        (b"{5: 5}", "the key '5' is not a string"),
        (b'{"farm": "a"', "it is not a JSON object"),
        (b'{"x": ' + b"[" * 3000 + b"]" * 3000 + b"}", "it is nested too deeply|it is not a JSON object"),
        ('{"farm": "\xe4"}'.encode("latin-1"), "it is not UTF-8"),
        (json.dumps({"farm": "web"}).encode("utf-16"), "it is not UTF-8"),
    ],
)
def test_other_bytes_do_not_fit(body: bytes, message: str) -> None:
    with pytest.raises(NotScalerError, match=message):
        steps(body)


@given(st.binary() | st.text().map(str.encode) | st.integers(0, 3000).map(lambda end: encoded(scaler_status())[:end]))
def test_no_bytes_raise_another_error(body: bytes) -> None:
    with pytest.raises(NotScalerError):
        steps(body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from(sorted(scaler_status())),
)
def test_what_fits_is_json_for_browsers(value: Any, key: str) -> None:
    """Every accepted document is strict JSON, with the value of each key as it was sent."""
    body = encoded({**scaler_status(), key: value})
    try:
        steps(body)
    except NotScalerError:
        return

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(body, parse_constant=refuse)[key] == value
