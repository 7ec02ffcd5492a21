"""Checks that the estimate of a farm, made from simulated reports, agrees with the original farm."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from lbdns.model.snapshot import Reading
from lbdns.scores.thesis import THESIS
from lbdns_tools.sim.farm_estimate import estimate_farm
from lbdns_tools.sim.recording_format import RecordedAnswers, RecordedEvent, RecordedReport, Recording, RecordingHeader
from lbdns_tools.sim.simulated_agents import SimulatedAgent
from lbdns_tools.sim.simulated_requests import WORKLOADS
from lbdns_tools.sim.simulated_web_server import SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import ServerSpec
from tests.tools.sim.made_up_recordings import record

FAST = {"cpu_count": 2.0, "requests": 41.0, "cpu": 0.2, "run_queue": 1.0, "busy_workers": 1.0}
SLOW = {"cpu_count": 1.0, "requests": 41.0, "cpu": 0.4, "run_queue": 4.0, "busy_workers": 1.0}


def simulated_reports(specs: tuple[ServerSpec, ...], rate: float, workload: str, seconds: int) -> Recording:
    """Return a recording of simulated agents' reports, while each server receives ``rate`` requests/s."""
    chance = Random(1)
    events: list[RecordedEvent] = []
    for spec in specs:
        server, size = SimulatedWebServer(spec), WORKLOADS[workload].draw(chance)
        agent = SimulatedAgent(server)
        arrival = 0.0
        for second in range(1, seconds + 1):
            while min(arrival, server.next_end) < second:
                if server.next_end <= arrival:
                    server.depart(server.next_end)
                else:
                    server.arrive(arrival, size(), (arrival, -1, 0))
                    arrival += chance.expovariate(rate)
            metrics = agent.sample(float(second))
            events.append(RecordedReport(spec.name, Reading(float(second), 1.0, THESIS.of(metrics), metrics)))
    events.sort(key=lambda event: event.time)
    events.append(RecordedAnswers(float(seconds), tuple(round(rate * seconds) for _ in specs)))
    header = RecordingHeader("web", "hobbit", tuple(spec.name for spec in specs), {}, 0.0)
    return Recording(header, tuple(events))


def test_a_simulated_farm_is_found_again() -> None:
    specs = (ServerSpec("a", 1.1, 1), ServerSpec("b", 0.7, 2), ServerSpec("c", 2.0, 2))
    found = estimate_farm(simulated_reports(specs, 30.0, "html", 60), WORKLOADS["html"].mean)
    for spec, server in zip(specs, found.servers, strict=True):
        assert server.cores == spec.cores
        assert server.speed == pytest.approx(spec.speed, rel=0.1)
        assert server.background == 0.0
    assert found.rate == pytest.approx(90.0, rel=0.02)
    assert found.interval == 1.0


def test_speed_is_requests_per_cpu_second() -> None:
    found = estimate_farm(record({"a": FAST, "b": SLOW}, 60, (20, 20)), 0.010)
    fast, slow = found.servers
    # 41 requests (one of them the agent's) in 0.2 CPU s are 205/s a core; as visits of two requests 102.5
    assert fast.speed == pytest.approx(205 * 0.010 / 2, rel=0.05)
    assert fast.speed / slow.speed == pytest.approx(2.0, rel=0.05)
    assert found.rate == pytest.approx(40.0)
    assert any("and 2 requests per answer, simulated as one visit" in note for note in found.notes)


def test_other_work_is_what_runs_beyond_the_busy_workers() -> None:
    found = estimate_farm(record({"a": FAST, "b": SLOW}, 10, None), 0.010)
    assert [server.background for server in found.servers] == [0.0, 3.0]
    assert any("b: " in note and "3 other runnable tasks" in note for note in found.notes)


def test_without_answers_requests_are_the_rate() -> None:
    found = estimate_farm(record({"a": FAST, "b": SLOW}, 10, None), 0.010)
    assert found.rate == pytest.approx(80.0)
    assert any("80 requests/s from requests_per_s, excluding one server-status request" in note for note in found.notes)


def test_without_counters_cores_are_all_there_is() -> None:
    found = estimate_farm(record({"a": {"cpu_count": 4.0}, "b": {}}, 10, (1, 1)), 0.010)
    assert [(server.speed, server.cores) for server in found.servers] == [(1.0, 4.0), (1.0, 4.0)]
    assert any("assumed to be 1 for all cores" in note for note in found.notes)
    assert any("b: 4 cores (unknown, assumed to match the other servers)" in note for note in found.notes)


def test_of_nothing_there_is_no_rate() -> None:
    empty = replace(record({"a": {}}, 1, None), events=())
    assert estimate_farm(empty, 0.010).rate is None
    assert estimate_farm(empty, 0.010).servers == (ServerSpec("a"),)


def test_a_restarted_web_server_only_begins_anew() -> None:
    whole = record({"a": FAST}, 60, None)
    half = len(whole.events) // 2
    restarted = []
    for i, event in enumerate(whole.events):
        assert isinstance(event, RecordedReport)
        metrics = dict(event.reading.metrics)
        if i >= half:
            metrics["requests_total"] -= 1000 + 41.0 * 30
            metrics["httpd_cpu_seconds"] -= 10 + 0.2 * 30
        restarted.append(RecordedReport(event.member, replace(event.reading, metrics=metrics)))
    found, expected = estimate_farm(replace(whole, events=tuple(restarted)), 0.01), estimate_farm(whole, 0.01)
    assert found.servers[0].speed == pytest.approx(expected.servers[0].speed, rel=0.05)
