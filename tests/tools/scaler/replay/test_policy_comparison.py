"""Judges all policies on the last of 15 generated days, as docs/background/scaling.md does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lbdns_tools.scaler.policies.policy_table import NEED_SETTINGS, POLICIES
from lbdns_tools.scaler.replay.demand_trace import DemandTrace
from lbdns_tools.scaler.replay.fluid_replay import ReplayResult, replay
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings, make_policy
from lbdns_tools.scaler.replay.trace_generator import DAY, MINUTES, generate_trace
from tests.tools.scaler.policies.farm_views import MONDAY

DAYS = 15
SETTINGS = ReplaySettings(maximum=40, warm_up=(DAYS - 1) * DAY)
OTHERS = [name for name in POLICIES if name not in (*NEED_SETTINGS, "forecast", "queue")]


def judged(trace: DemandTrace, name: str, settings: ReplaySettings, days: int = DAYS) -> ReplayResult:
    """Return the result of the last of the last ``days`` days of the trace."""
    first = (DAYS - days) * MINUTES
    part = DemandTrace(trace.times[first:], trace.rates[first:], trace.end)
    settings = replace(settings, warm_up=(days - 1) * DAY)
    return replay(part, name, make_policy(name, settings, {}), settings)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_policy_is_cheaper_and_loses_less_than_forecast_or_queue(seed: int) -> None:
    trace = generate_trace(DAYS, seed).shifted(MONDAY)
    ours = [judged(trace, name, SETTINGS) for name in ("forecast", "queue")]
    # Only forecast looks back for more than two hours, so three days do for the others
    others = [judged(trace, name, SETTINGS, days=3) for name in OTHERS]
    for mine in ours:
        better = [each.policy for each in (*ours, *others) if each.cost < mine.cost and each.lost < mine.lost]
        assert better == [], mine.policy
        assert mine.lost <= 1e-4 * mine.requests, "one request in 10,000 at most"
        dearer = {each.policy for each in others if each.cost > mine.cost}
        assert {"fixed", "cpu", "target", "reactive"} <= dearer
        assert min(each.revenue for each in ours) > max(each.revenue for each in others)


def test_a_forecast_helps_if_servers_boot_slowly() -> None:
    """With 10 minutes of boot time, the forecast loses a tenth of what queue loses, for at most 8 % more money."""
    trace = generate_trace(DAYS, 1).shifted(MONDAY)
    slow = replace(SETTINGS, boot_time=600.0)
    forecast, queue = judged(trace, "forecast", slow), judged(trace, "queue", slow, days=3)
    assert forecast.lost < queue.lost / 10
    assert forecast.cost < 1.08 * queue.cost
