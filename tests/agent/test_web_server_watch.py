"""Tests of the web server watch: which looks at the port begin and end an alarm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.webserver.web_server_watch import WebServerWatch
from lbdns_shared.report import WEB_SERVER_FAILED

FAILED = f"{WEB_SERVER_FAILED}: nothing listens on port 80"
LOOKS = {"+": True, "-": False, "?": None}


def failures(looks: str) -> str:
    """Return one letter for each look: x while the server counts as failed."""
    sequence = [LOOKS[look] for look in looks]
    seen = iter(sequence)
    watch = WebServerWatch(lambda: next(seen), 80)
    found = ""
    for _ in sequence:
        before = watch.failure
        assert watch.look() == (watch.failure != before)
        assert watch.failure in ("", FAILED)
        found += "x" if watch.failure else "."
    return found


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ("++++", "...."),
        ("++--", "...x"),
        ("+-+-+-+", "......."),  # opens its sockets anew
        ("+-----++++", "..xxxxx..."),
        ("+--+--++", "..xxxxx."),
        ("------", "......"),  # has never listened
        ("--+--", "....x"),
        ("??????", "......"),
        ("+-?-?-", "......"),
        ("+--????", "..xxxxx"),
    ],
)
def test_when_a_server_counts_as_failed(looks: str, expected: str) -> None:
    assert failures(looks) == expected


@given(st.lists(st.sampled_from([True, False, None])))
def test_no_single_look_changes_anything(looks: list[bool | None]) -> None:
    text = "".join({True: "+", False: "-", None: "?"}[look] for look in looks)
    found = "." + failures(text)
    for i, look in enumerate(text, 1):
        if found[i] != found[i - 1]:
            assert text[i - 2 : i] == look * 2
            assert look == ("-" if found[i] == "x" else "+")
