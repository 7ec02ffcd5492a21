"""Tests of failure thresholds: parsing, error messages, and missing results, which never pass."""

from __future__ import annotations

import pytest

from lbdns_tools.load.failure_thresholds import parse_threshold
from lbdns_tools.load.request_tally import ERRORS, RequestTally
from lbdns_tools.load.run_statistics import COUNTS, NUMBERS, run_statistics


def measured(latency: float = 0.25, failed: int = 5) -> RequestTally:
    made = RequestTally()
    for place in range(100):
        made.add(place / 100, latency, 0.001, 0.002, 1000, "a", "timeout" if place < failed else "")
    return made


@pytest.mark.parametrize(
    ("text", "name", "comparison", "limit"),
    [
        ("p99>200ms", "p99_s", ">", 0.2),
        (" P99 >= 0.2 s ", "p99_s", ">=", 0.2),
        ("p99_s>0.2", "p99_s", ">", 0.2),
        ("dns_p95>500us", "dns_p95_s", ">", 0.0005),
        ("mean<1ms", "mean_s", "<", 0.001),
        ("error_percent>1", "error_percent", ">", 1.0),
        ("error_percent>0.1%", "error_percent", ">", 0.1),
        ("requests_per_s<1000", "requests_per_s", "<", 1000.0),
        ("requests_per_s<=1.5k", "requests_per_s", "<=", 1500.0),
        ("mbit_per_s<100", "mbit_per_s", "<", 100.0),
        ("refused>0", "refused", ">", 0.0),
        ("5xx>1e3", "5xx", ">", 1000.0),
        ("failed>0", "failed", ">", 0.0),
    ],
)
def test_as_people_write_them(text: str, name: str, comparison: str, limit: float) -> None:
    threshold = parse_threshold(text)
    assert (threshold.name, threshold.comparison) == (name, comparison)
    assert threshold.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p99", "is not a valid threshold; write a statistic"),
        ("p99=200ms", "is not a valid threshold"),
        ("p98>200ms", "no statistic named 'p98'.*Perhaps you meant"),
        ("speed>3", "no statistic named 'speed'"),
        ("p99>200", "p99 is a time, so the limit requires a unit"),
        ("p99>5%", "is a time"),
        ("p99>fastms", "'fast' is not a number"),
        ("p99>ms", "'' is not a number"),
        ("error_percent>1ms", "is a percentage, so the unit must be % or omitted, not ms"),
        ("requests_per_s<10%", "is not a percentage"),
        ("requests_per_s<10s", "is not a time"),
        ("failed>-1", "0 or more"),
        ("failed>nan", "0 or more"),
        ("failed>inf", "0 or more"),
    ],
)
def test_errors_say_what_to_write(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_threshold(text)


def test_every_figure_can_be_judged() -> None:
    found = run_statistics(measured(), 1.0)
    for name in (*NUMBERS, *COUNTS, *ERRORS):
        unit = "s" if name.endswith("_s") and not name.endswith("per_s") else ""
        assert parse_threshold(f"{name}>=0{unit}").broken(found), name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p99>200ms", "p99>200ms: is 250 ms"),
        ("error_percent>5", ""),
        ("requests_per_s<1k", "requests_per_s<1k: is 95"),
        ("reset>0", ""),
        ("late_p99>1ms", "late_p99>1ms: no result"),
    ],
)
def test_what_is_broken_is_told_with_its_figure(text: str, why: str) -> None:
    assert parse_threshold(text).broken(run_statistics(measured(), 1.0)) == why
    assert (
        not why or "no result" in why or not parse_threshold(text).broken(run_statistics(measured(0.01, failed=0), 0.1))
    )


def test_each_comparison_at_its_limit() -> None:
    found = run_statistics(measured(), 1.0)
    told = [bool(parse_threshold(f"error_percent{sign}5").broken(found)) for sign in (">", ">=", "<", "<=")]
    assert told == [False, True, False, True]


def test_no_result_never_passes() -> None:
    for text in ("p99>200ms", "timeout>0"):
        assert parse_threshold(text).broken(run_statistics(RequestTally(), 1.0)) == f"{text}: no result"
