"""Tests of replaying recorded queries with other policies, based on the recorded reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lbdns.policies import POLICIES
from lbdns_tools.sim.policy_replay import answered, look_ups, replay, replayed_requests, spans
from lbdns_tools.sim.recording_format import RecordedAnswers, RecordedReport, Recording
from lbdns_tools.sim.simulation_scenario import Scenario, ServerSpec
from tests.tools.sim.made_up_recordings import record

IDLE = {"cpu_count": 1.0, "cpu_idle": 100.0, "run_queue": 0.0, "busy_workers": 1.0, "requests": 21.0, "cpu": 0.2}
FULL = {**IDLE, "cpu_idle": 0.0, "run_queue": 25.0, "busy_workers": 25.0}
DAY = record({"a": IDLE, "b": FULL}, 60, (30, 10))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_recorded_query_is_handed_out(policy: str) -> None:
    found = replay(DAY, policy, 3.0, 0.5)
    assert sum(found.totals) == 60 * 40
    assert tuple(sum(column) for column in zip(*found.timeline, strict=True)) == found.totals
    assert [sum(moment) for moment in found.timeline] == [40] * 60
    assert sum(found.shares.values()) == pytest.approx(1)
    assert found == replay(DAY, policy, 3.0, 0.5)


def test_policies_choose_by_the_recorded_reports() -> None:
    shares = {policy: replay(DAY, policy, 3.0, 0.5).shares["a"] for policy in ("best", "best_score", "round_robin")}
    assert shares["round_robin"] == pytest.approx(0.5, abs=0.01)
    assert shares["best_score"] > 0.99  # the emptier one, always
    assert shares["best"] > 0.7


def test_the_difference_from_what_was_answered() -> None:
    assert replay(DAY, "round_robin", 3.0, 0.5).diverted == pytest.approx(0.25, abs=0.01)  # 20:20 for 30:10
    again = record({"a": IDLE, "b": FULL}, 60, (20, 20))
    assert replay(again, "round_robin", 3.0, 0.5).diverted == pytest.approx(0.0, abs=0.01)


def test_who_falls_silent_in_a_record_gets_nothing_until_the_next_report() -> None:
    events = tuple(
        event
        for event in record({"a": IDLE, "b": IDLE, "c": IDLE}, 60, (10, 10, 10)).events
        if not (isinstance(event, RecordedReport) and event.member == "a" and 20 < event.time < 40)
    )
    day = replace(record({"a": IDLE, "b": IDLE, "c": IDLE}, 1, None), events=events)
    timeline = replay(day, "round_robin", 3.0, 0.5).timeline
    assert all(moment[0] == 0 for moment in timeline[24:38])
    assert all(moment[0] > 0 for moment in (*timeline[:22], *timeline[41:]))


def test_an_alarm_in_a_record_counts() -> None:
    events = tuple(
        replace(event, reading=replace(event.reading, alarm="disk"))
        if isinstance(event, RecordedReport) and event.member == "a"
        else event
        for event in DAY.events
    )
    assert replay(replace(DAY, events=events), "round_robin", 3.0, 0.5).totals[0] < 5


def test_what_was_answered() -> None:
    real = answered(DAY)
    assert real is not None
    assert real.totals == (1800, 600)
    assert real.timeline == ((30, 10),) * 60
    assert answered(record({"a": IDLE}, 5, None)) is None


def test_where_nobody_counted_answers_requests_stand_for_them() -> None:
    day = record({"a": IDLE, "b": FULL}, 60, None)
    assert sum(span.count for span in spans(day)) == 60 * 2 * 20  # 21 a second, one of which is the agent's own
    found = replay(day, "round_robin", 3.0, 0.5)
    assert found.diverted is None
    assert sum(found.totals) == 60 * 2 * 20


def test_look_ups_keep_to_their_seconds() -> None:
    times = look_ups(DAY)
    assert list(times) == sorted(times)
    assert times == look_ups(DAY)
    assert all(sum(second <= time < second + 1 for time in times) == 40 for second in range(60))


def test_the_simulation_is_as_long_as_the_record() -> None:
    scenario = Scenario((ServerSpec("a"),), **replayed_requests(DAY))
    assert scenario.arrivals is not None
    assert scenario.end == pytest.approx(60)
    assert scenario.warm_up == pytest.approx(6)


@pytest.mark.parametrize(
    "events", [(), (RecordedAnswers(0.0, (0, 0)),), (RecordedAnswers(0.0, (3, 0)),), DAY.events[:1]]
)
def test_records_with_next_to_nothing_in_them(events: tuple[RecordedReport | RecordedAnswers, ...]) -> None:
    day = Recording(DAY.header, events)
    found = replay(day, "best", 3.0, 0.5)
    assert sum(found.totals) == sum(day.answered)
