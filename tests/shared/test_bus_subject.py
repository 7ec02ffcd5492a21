"""Tests of the subjects under which agents publish reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_shared.bus_subject import NO_POOL, host_in_subject, report_subject, report_subjects

NAMES = st.from_regex(r"[a-z0-9_][a-z0-9_-]{0,10}(\.[a-z0-9_][a-z0-9_-]{0,10}){0,3}", fullmatch=True)


@pytest.mark.parametrize(
    ("pool", "host", "subject"),
    [
        ("web", "gandalf", "lbdns.report.web.gandalf"),
        ("", "gandalf", "lbdns.report.-.gandalf"),
        ("-", "gandalf", "lbdns.report.%2D.gandalf"),
        ("web 1.*>", "a.example", "lbdns.report.web%201%2E%2A%3E.a.example"),
        ("zürich", "a", "lbdns.report.z%C3%BCrich.a"),
    ],
)
def test_subjects(pool: str, host: str, subject: str) -> None:
    assert report_subject(pool, host) == subject


@pytest.mark.parametrize(
    "subject", ["", "lbdns.report.", "lbdns.report.web", "lbdns.report.web.", "other.report.web.a"]
)
def test_other_subjects_name_no_host(subject: str) -> None:
    assert host_in_subject(subject) == ""


def matches(pattern: str, subject: str) -> bool:
    """As NATS compares them; all patterns end with > and contain no other wildcard."""
    return subject.startswith(pattern[:-1]) and len(subject) >= len(pattern)


@given(st.lists(st.text(max_size=5), max_size=3), st.text(max_size=5), NAMES)
def test_the_patterns_of_pools_match_their_reports_only(pools: list[str], pool: str, host: str) -> None:
    wanted, own = [[text.encode("utf-8", "replace").decode() for text in texts] for texts in (pools, [pool])]
    patterns = report_subjects(name or NO_POOL for name in wanted)
    assert all(pattern.endswith(".>") and "*" not in pattern for pattern in patterns)
    is_wanted = not wanted or (own[0] or NO_POOL) in [name or NO_POOL for name in wanted]
    if own[0] != NO_POOL and NO_POOL not in wanted:  # a pool of this name cannot be selected
        assert any(matches(pattern, report_subject(own[0], host)) for pattern in patterns) == is_wanted


def test_a_pool_called_like_no_pool_is_not_matched_by_it() -> None:
    (pattern,) = report_subjects([NO_POOL])
    assert pattern == "lbdns.report.-.>"
    assert matches(pattern, report_subject("", "gandalf"))
    assert not matches(pattern, report_subject("-", "gandalf"))


@given(st.text(max_size=100), NAMES)
def test_the_host_can_be_found_whatever_the_pool_is_called(pool: str, host: str) -> None:
    subject = report_subject(pool.encode("utf-8", "replace").decode(), host)
    assert host_in_subject(subject) == host
    assert subject.isascii()
    assert not set(subject) & set(" *>\r\n\t")


@given(st.text(max_size=20), st.text(max_size=20))
def test_different_pools_have_different_subjects(one: str, other: str) -> None:
    names = [text.encode("utf-8", "replace").decode() for text in (one, other)]
    assert (names[0] == names[1]) == (report_subject(names[0], "a") == report_subject(names[1], "a"))
