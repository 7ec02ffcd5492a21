"""Tests of replays: lost requests, CPU, hours and revenue, computed by hand for short traces."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbdns_tools.queueing_theory import erlang_b
from lbdns_tools.scaler.life_cycle.scaling_limits import ScalingLimits
from lbdns_tools.scaler.policies.fixed import Fixed
from lbdns_tools.scaler.policies.policy_table import POLICIES
from lbdns_tools.scaler.policies.reactive import Reactive
from lbdns_tools.scaler.policies.revenue_model import LossModel, Prices
from lbdns_tools.scaler.policies.scaling_policy import FarmView, Recommendation
from lbdns_tools.scaler.replay.demand_trace import DemandTrace
from lbdns_tools.scaler.replay.fluid_replay import ReplayResult, replay
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings

#: Servers of 10 requests/s that boot in 90 s; a request earns 1, and an hour costs 100
SETTINGS = ReplaySettings(Prices(1.0, 100.0), service_time=0.1, cores=1, boot_time=90.0, maximum=50)


def trace(*rates: float, seconds: float = 60.0) -> DemandTrace:
    return DemandTrace(tuple(seconds * at for at in range(len(rates))), rates, seconds * len(rates))


def run(rates: tuple[float, ...], policy: Fixed | Reactive | None = None, **changes: object) -> ReplayResult:
    farm = replace(SETTINGS, **changes)  # type: ignore[arg-type]
    return replay(trace(*rates), "mine", policy or Reactive(), farm)


def test_requests_beyond_the_capacity_are_lost_until_servers_have_booted() -> None:
    """The rate rises from 10 to 30: seen at 120 s, two servers join at 210 s, in the middle of a period."""
    found = run((10.0, 30.0, 30.0, 30.0, 30.0))
    assert found.requests == 600 + 4 * 1800
    assert found.lost == pytest.approx(150 * 20)  # from 60 s to 210 s
    assert [each.in_service for each in found.rounds] == [1, 1, 1, 3, 3]
    assert [each.decided for each in found.rounds] == [1, 3, 3, 3, 3]
    assert (found.starts, found.most_servers) == (2, 3)
    assert found.instance_hours == 3
    assert found.cost == 300
    assert found.revenue == pytest.approx(7800 - 3000 - 300)
    assert found.mean_servers == pytest.approx((210 * 1 + 90 * 3) / 300)
    assert found.mean_cpu_percent == pytest.approx(100)


def test_the_start_and_its_limits() -> None:
    assert run((35.0,) * 3).rounds[0].in_service == 4
    assert run((35.0,) * 3, start=2).rounds[0].in_service == 2
    assert run((35.0,) * 3, maximum=3).rounds[0].in_service == 3
    assert run((0.0, 1.0), minimum=2).rounds[0].in_service == 2


def test_erlang_b_loses_more() -> None:
    found = run((20.0, 20.0), Fixed(3), start=3, loss=LossModel.ERLANG_B)
    assert found.lost == pytest.approx(2400 * erlang_b(3, 2.0))
    assert run((20.0, 20.0), Fixed(3), start=3).lost == 0


def test_cpu_and_response_times() -> None:
    found = run((20.0, 20.0), Fixed(4), start=4)
    assert found.mean_cpu_percent == pytest.approx(50)
    assert found.mean_response_s == pytest.approx(0.2)
    assert found.p99_response_s == pytest.approx(0.921, abs=0.001)


@dataclass(frozen=True)
class Recorder:
    """Keeps what it sees, and asks for two servers."""

    seen: list[FarmView]
    history: float = 0.0

    def recommend(self, view: FarmView) -> Recommendation:
        self.seen.append(replace(view, rounds=tuple(view.rounds)))
        return Recommendation(2, "Two are enough.")


def test_what_policies_see() -> None:
    recorder = Recorder([])
    replay(trace(20.0, 5.0, 5.0, 5.0), "mine", recorder, replace(SETTINGS, start=1))
    first, second, third, last = recorder.seen
    assert (first.now, first.demand.requests_per_s, first.demand.cpu_percent) == (60, 20, 100)
    assert (second.now, second.in_service, second.on_the_way) == (120, 1, 1)
    assert third.demand.cpu_percent == pytest.approx(100 * 5 * 60 / (10 * (30 * 1 + 30 * 2)))
    assert [past.demand.time for past in last.rounds] == [60, 120, 180]
    assert (last.rounds[-1].in_service, last.rounds[-1].recommended, last.rounds[-1].decided) == (2, 2, 2)
    assert (last.capacity, last.minimum, last.maximum) == (10, 1, 50)


def test_a_warm_up_does_not_count() -> None:
    found = run((10.0, 50.0, 50.0, 50.0, 50.0, 50.0), warm_up=300.0)
    assert (found.requests, found.lost, found.starts) == (3000, 0, 0)
    assert found.instance_hours == 0, "all hours began within the warm-up"
    assert run((10.0,) * 6, warm_up=300.0, billing_period=0.0).instance_hours == pytest.approx(60 / 3600)


def test_the_last_period_may_be_short() -> None:
    found = replay(trace(10.0, 10.0, seconds=50.0), "mine", Reactive(), SETTINGS)
    assert [each.time for each in found.rounds] == [60, 100]
    assert found.requests == 1000


def test_limits_apply_to_the_policy() -> None:
    limits = ScalingLimits(delay_in=600.0)
    rates = trace(*(50.0, *(10.0,) * 8))
    assert min(each.decided for each in replay(rates, "mine", Reactive(), SETTINGS, limits).rounds) == 5
    assert min(each.decided for each in replay(rates, "mine", Reactive(), SETTINGS).rounds) == 1


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(0, 400), min_size=3, max_size=60), st.sampled_from(LossModel), st.sampled_from([0.0, 3600.0]))
def test_every_replay_adds_up(name: str, rates: list[float], loss: LossModel, billing: float) -> None:
    farm = replace(SETTINGS, loss=loss, billing_period=billing, maximum=20)
    demand = trace(*rates, seconds=45.0)
    found = replay(demand, name, POLICIES[name](), farm)
    assert found.requests == pytest.approx(demand.requests)
    assert -1e-6 <= found.lost <= found.requests + 1e-6
    assert found.revenue == pytest.approx(found.requests - found.lost - found.cost)
    assert found.cost == pytest.approx(100 * found.instance_hours)
    assert found.instance_hours >= found.mean_servers * (demand.end - demand.begin) / 3600 - 1e-6
    assert all(1 <= each.in_service <= 20 and 1 <= each.decided <= 20 for each in found.rounds)
    assert 0 <= found.mean_cpu_percent <= 100 + 1e-6
