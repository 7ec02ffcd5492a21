"""Replays a trace of demand with a scaling policy, as a fluid: requests are rates, not events."""

from __future__ import annotations

from dataclasses import dataclass

from lbdns_tools.scaler.life_cycle.scaling_limits import ScalingLimits
from lbdns_tools.scaler.policies.revenue_model import lost_share, servers_for
from lbdns_tools.scaler.policies.scaling_policy import Demand, FarmView, ScalingPolicy, ScalingRound
from lbdns_tools.scaler.replay.demand_trace import DemandTrace
from lbdns_tools.scaler.replay.modelled_response_times import ModelledResponseTimes
from lbdns_tools.scaler.replay.replay_settings import ReplaySettings
from lbdns_tools.scaler.replay.simulated_farm import SimulatedFarm


@dataclass(frozen=True, slots=True)
class ReplayRound:
    """One round of a replay, for plots and tests."""

    time: float  # Unix seconds, the end of the period
    requests_per_s: float
    in_service: int
    decided: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a policy would have cost and earned."""

    policy: str
    requests: float
    lost: float
    instance_hours: float
    cost: float
    revenue: float
    starts: int
    most_servers: int
    mean_servers: float
    mean_cpu_percent: float
    mean_response_s: float
    p99_response_s: float
    rounds: tuple[ReplayRound, ...] = ()


class _Totals:
    """The totals of a replay, excluding its warm-up."""

    def __init__(self, settings: ReplaySettings) -> None:
        self.requests = self.lost = self.seconds = self.server_seconds = self.cpu_seconds = 0.0
        self.most = 0
        self.times = ModelledResponseTimes(settings.service_time, settings.cores)

    def add(self, rate: float, lost: float, servers: int, utilization: float, seconds: float) -> None:
        self.requests += rate * seconds
        self.lost += lost * seconds
        self.seconds += seconds
        self.server_seconds += servers * seconds
        self.cpu_seconds += utilization * servers * seconds
        self.most = max(self.most, servers)
        self.times.add(utilization, (rate - lost) * seconds)


def replay(
    trace: DemandTrace, name: str, policy: ScalingPolicy, settings: ReplaySettings, limits: ScalingLimits | None = None
) -> ReplayResult:
    """Replay the trace with a policy, and return its costs and revenue. ``trace`` must be longer than the warm-up."""
    capacity, limits = settings.capacity, limits or ScalingLimits()
    first = settings.start or servers_for(trace.rates[0], capacity)
    farm = SimulatedFarm(settings, trace.begin, max(settings.minimum, min(first, settings.maximum)))
    totals, count_from = _Totals(settings), trace.begin + settings.warm_up
    past: list[ScalingRound] = []
    rounds: list[ReplayRound] = []
    now = trace.begin
    while now < trace.end:
        end = min(now + settings.period, trace.end)
        demand = _serve(trace, farm, settings, now, end, totals if now >= count_from else _Totals(settings))
        now = end
        view = FarmView(now, demand, farm.view(now), capacity, settings.minimum, settings.maximum, past)
        wanted = policy.recommend(view)
        decided = limits.apply(wanted, view)
        past.append(ScalingRound(demand, view.in_service, wanted.servers, decided.servers))
        rounds.append(ReplayRound(now, demand.requests_per_s, view.in_service, decided.servers, decided.reason))
        if now < trace.end:
            farm.scale(now, decided.servers, decided.remove)
    farm.finish(trace.end)
    return _result(name, totals, farm, settings, tuple(rounds))


def _serve(
    trace: DemandTrace, farm: SimulatedFarm, settings: ReplaySettings, begin: float, end: float, totals: _Totals
) -> Demand:
    """Serve one period, and return its demand. A server that becomes ready during the period serves requests from that
    moment on."""
    arrived = busy = paid = 0.0
    now = begin
    while now < end:
        ready = farm.next_ready(now)
        until = min(end, ready) if ready is not None else end
        servers = farm.in_service(now)
        for rate, seconds in trace.pieces(now, until):
            lost = rate * lost_share(servers, rate / settings.capacity, settings.loss)
            utilization = (rate - lost) / (servers * settings.capacity) if servers else 0.0
            totals.add(rate, lost, servers, utilization, seconds)
            arrived += rate * seconds
            busy += utilization * servers * seconds
            paid += servers * seconds
        now = until
    return Demand(end, arrived / (end - begin), 100 * busy / paid if paid else None)


def _result(
    name: str, totals: _Totals, farm: SimulatedFarm, settings: ReplaySettings, rounds: tuple[ReplayRound, ...]
) -> ReplayResult:
    hours = farm.paid_seconds / 3600
    return ReplayResult(
        policy=name,
        requests=totals.requests,
        lost=totals.lost,
        instance_hours=hours,
        cost=settings.prices.cost(hours),
        revenue=settings.prices.revenue(totals.requests, totals.lost, hours),
        starts=farm.starts,
        most_servers=totals.most,
        mean_servers=totals.server_seconds / totals.seconds if totals.seconds else 0.0,
        mean_cpu_percent=100 * totals.cpu_seconds / totals.server_seconds if totals.server_seconds else 0.0,
        mean_response_s=totals.times.mean(),
        p99_response_s=totals.times.percentile(99),
        rounds=rounds,
    )
