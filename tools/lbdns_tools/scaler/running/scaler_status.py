"""The status document of a running scaler, and its metrics. Pure functions of the loop's state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from lbdns_tools.scaler.demand.demand_source import ServerLoad
from lbdns_tools.scaler.life_cycle.scaling_plan import natural_key
from lbdns_tools.scaler.life_cycle.server_state import ServerState
from lbdns_tools.scaler.running.scaler_loop import LEAST_HISTORY, ScalerLoop

MAX_POINTS: Final = 240  # past rounds in the document; more are thinned out


def status_document(loop: ScalerLoop, now: float) -> dict[str, Any]:
    """Return the status of a scaler as plain data. ``now`` is in Unix seconds."""
    decision, fleet = loop.decision, loop.fleet
    counts = Counter(record.state for record in fleet.records.values())
    recent = [past for past in loop.rounds if past.demand.time >= now - LEAST_HISTORY]
    step = -(-len(recent) // MAX_POINTS) or 1
    return {
        "farm": loop.settings.farm,
        "policy": loop.settings.policy,
        "dry_run": loop.dry_run,
        "minimum": loop.settings.minimum,
        "maximum": loop.settings.maximum,
        "quota": fleet.quota,
        "started": round(loop.started, 3),
        "trouble": loop.trouble or fleet.trouble,
        "demand": None if decision is None else {
            "time": round(decision.view.demand.time, 3),
            "requests_per_s": round(decision.view.demand.requests_per_s, 3),
            "cpu_percent": decision.view.demand.cpu_percent,
            "capacity": round(decision.view.capacity, 3),
        },
        "recommended": decision and decision.recommended,
        "wanted": decision and decision.limited.servers,
        "reason": decision.limited.reason if decision else "",
        "changes": [str(change) for change in decision.changes] if decision else [],
        "counts": {state.value: counts[state] for state in ServerState},
        "failures": dict(fleet.failures),
        "servers": [_server(loop, name, now) for name in sorted(fleet.records, key=natural_key)],
        "rounds": [
            {
                "time": round(past.demand.time, 1), "requests_per_s": round(past.demand.requests_per_s, 2),
                "in_service": past.in_service, "recommended": past.recommended,
            }
            for past in reversed(recent[::-1][::step])
        ],
    }  # fmt: skip


def _server(loop: ScalerLoop, name: str, now: float) -> dict[str, Any]:
    record, facts = loop.fleet.records[name], loop.fleet.facts_of(name)
    load = loop.decision.reading.servers.get(name, ServerLoad()) if loop.decision else ServerLoad()
    machine, front = facts.machine, facts.front
    return {
        "name": name,
        "state": record.state.value,
        "since": round(record.since, 3),
        "age_s": round(max(0.0, now - record.since), 1),
        "reason": record.reason,
        "held": name in loop.fleet.held,
        "addresses": list(machine.addresses) if machine else [],
        "machine": machine.status.value if machine else None,
        "billed_since": machine.created if machine else 0.0,
        "benchmark": record.capacity or None,
        "requests_per_s": load.requests_per_s,
        "cpu_percent": load.cpu_percent,
        "connections": front.connections if front else None,
    }


def metric_families(loop: ScalerLoop) -> Iterator[Metric]:
    """Yield the scaler's metrics for Prometheus."""
    servers = GaugeMetricFamily("lbdns_scaler_servers", "Number of servers in each state.", labels=["state"])
    counts = Counter(record.state for record in loop.fleet.records.values())
    for state in ServerState:
        servers.add_metric([state.value], counts[state])
    yield servers
    failures = CounterMetricFamily("lbdns_scaler_failures", "Failures by what failed.", labels=["what"])
    for what, count in loop.fleet.failures.items():
        failures.add_metric([what], count)
    yield failures
    trouble = bool(loop.trouble or loop.fleet.trouble)
    yield GaugeMetricFamily("lbdns_scaler_trouble", "1 while servers or demand cannot be observed.", value=trouble)
    if decision := loop.decision:
        figures = {
            "lbdns_scaler_requests_per_second": ("Requests/s that arrive.", decision.view.demand.requests_per_s),
            "lbdns_scaler_server_capacity": ("Requests/s that one server can serve.", decision.view.capacity),
            "lbdns_scaler_recommended_servers": ("Servers that the policy recommends.", decision.recommended),
            "lbdns_scaler_wanted_servers": ("Number of servers wanted, within the limits.", decision.limited.servers),
        }
        for name, (what, value) in figures.items():
            yield GaugeMetricFamily(name, what, value=value)
