"""Tests of the load of a pool's sites, from reports to utilisation, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from lbdns.choosing.chooser import Chooser
from lbdns.choosing.site_load import SiteLoad
from lbdns.model.overrides import NO_POOL_OVERRIDES, PoolOverrides
from lbdns.model.snapshot import Reading, Snapshot
from lbdns_shared.report import WEB_SERVER_FAILED

NAMES = ("a.z", "b.z", "c.z")
FIRST, SECOND = (0, 1), (2,)  # the members of two sites


def observed(
    rates: Sequence[float | None],
    *,
    queue: float = 1.0,
    alarms: Sequence[str] = ("", "", ""),
    overrides: PoolOverrides = NO_POOL_OVERRIDES,
) -> Chooser:
    """Return a chooser that has observed reports of members with the given request rates for a minute. Members with one
    core serve 100 requests/s; a member without a rate never reports."""
    pool = Chooser(NAMES, 3.0, 0.0, Random(1), ramp_up=0.0)
    for second in range(60):
        readings = {}
        for name, rate, alarm in zip(NAMES, rates, alarms, strict=True):
            if rate is not None:
                total = rate * second
                metrics = {
                    "requests_per_s": rate, "requests_total": total, "httpd_cpu_seconds": total / 100, "cpu_count": 1.0,
                    "busy_workers": queue, "cpu_idle": 100 - min(100.0, rate),
                }  # fmt: skip
                readings[name] = Reading(float(second), 1.0, 50, metrics, alarm=alarm)
        pool.observe(Snapshot(second, readings), overrides, float(second))
    return pool


def test_the_utilisation_is_the_rate_divided_by_the_capacity() -> None:
    pool = observed([80.0, 40.0, 20.0])
    first, second = pool.site_load(FIRST), pool.site_load(SECOND)
    assert (first.members, first.hosts, second.members) == ((0, 1), 2, (2,))
    assert first.measured
    assert first.utilization == pytest.approx(0.6, abs=0.05)
    assert second.utilization == pytest.approx(0.2, abs=0.05)


def test_a_backlog_counts_as_demand_if_the_members_are_busy() -> None:
    assert (observed([99.0, 99.0, 20.0], queue=500.0).site_load(FIRST).utilization or 0.0) > 1.2
    assert (observed([20.0, 20.0, 20.0], queue=500.0).site_load(FIRST).utilization or 0.0) < 0.5, "only slow requests"


def test_a_member_that_does_not_report_is_taken_for_as_busy_as_the_others() -> None:
    forced = PoolOverrides(forced={"b.z": "up"})
    load = observed([80.0, None, 20.0], overrides=forced).site_load(FIRST)
    assert load.members == (0, 1)
    assert load.utilization == pytest.approx(0.8, abs=0.05)


def test_a_site_without_a_candidate() -> None:
    assert observed([80.0, 40.0, None]).site_load(SECOND).is_unknown
    assert observed([80.0, 40.0, 20.0], overrides=PoolOverrides(forced={"c.z": "down"})).site_load(SECOND) == SiteLoad(
        ()
    )


def test_a_site_whose_members_are_all_in_alarm_is_full_but_not_gone() -> None:
    load = observed([20.0, 20.0, 99.0], alarms=("", "", "too hot")).site_load(SECOND)
    assert load.members == (2,)
    assert (load.utilization or 0.0) > 0.9
    failed = observed([20.0, 20.0, 99.0], alarms=("", "", WEB_SERVER_FAILED)).site_load(SECOND)
    assert failed == SiteLoad(())
