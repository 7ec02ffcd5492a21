"""Tests of the host sampler: differences, failing sensors, late results, and the order in which sensors are read."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from lbdns_agent import host_sampler
from lbdns_agent.host_sampler import SHORTEST_DIFFERENCE, HostSampler
from lbdns_agent.kernel_files import ProcFiles
from lbdns_agent.metrics import METRIC_SENSORS, AnySensor
from lbdns_agent.missing_values import MissingValueError, SwitchedOffError, failure_reason
from lbdns_agent.non_blocking_sensors import DescriptorWait, ReadingSteps, SensorTasks
from lbdns_agent.sensor import MeasuredHost, MetricValues, NonBlockingSensor, Sensor, rate
from tests.agent.fixtures import host_with_kernel
from tests.agent.waiting import PATIENCE

NOWHERE = MeasuredHost(ProcFiles("/nonexistent"))


def gauge(read: Callable[[MeasuredHost], Any], name: str = "m", **more: Any) -> dict[str, AnySensor]:
    return {name: Sensor("source", read, lambda before, now, seconds: {name: now}, **more)}


def sampler(metrics: dict[str, AnySensor]) -> HostSampler:
    return HostSampler(NOWHERE, SensorTasks(), metrics)


def test_a_reading_becomes_a_metric() -> None:
    sample = sampler(gauge(lambda host: 4.5)).sample(0.0, 1.0)
    assert sample.metrics == {"m": 4.5}
    assert sample.missing == {}


def test_differences_are_taken_over_the_time_between_the_readings() -> None:
    counter = iter([100.0, 160.0])

    def values(before: float | None, now: float, seconds: float) -> MetricValues:
        return {} if before is None else {"m": rate(before, now, seconds), "span": seconds}

    sensor = Sensor("counter", lambda host: next(counter), values)
    taking = sampler({"m": sensor, "span": sensor})
    before_first = time.monotonic()
    first = taking.sample(0.0, 1.0)
    after_first = time.monotonic()
    assert first.metrics == {}
    assert first.missing == dict.fromkeys(("m", "span"), "this metric needs two samples")
    time.sleep(SHORTEST_DIFFERENCE * 1.5)
    before_second = time.monotonic()
    second = taking.sample(0.0, 1.0).metrics
    assert before_second - after_first <= second["span"] <= time.monotonic() - before_first
    assert second["m"] == pytest.approx(60 / second["span"])


def test_two_readings_in_the_same_moment_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float | None, float]] = []

    def values(before: float | None, now: float, seconds: float) -> MetricValues:
        seen.append((before, seconds))
        return {"m": now}

    numbers = iter([1.0, 2.0, 3.0])
    taking = sampler({"m": Sensor("s", lambda host: next(numbers), values)})
    monkeypatch.setattr(host_sampler, "SHORTEST_DIFFERENCE", 1e9)  # whatever passes on a busy machine is one moment
    taking.sample(0.0, 1.0)
    assert taking.sample(0.0, 1.0).metrics == {"m": 2.0}
    monkeypatch.setattr(host_sampler, "SHORTEST_DIFFERENCE", 0.0)
    taking.sample(0.0, 1.0)
    assert [before for before, _ in seen] == [None, None, 1.0], "the first reading stays what differences count from"


def failing(*outcomes: Any) -> Callable[[MeasuredHost], Any]:
    left = list(outcomes)

    def read(host: MeasuredHost) -> Any:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return read


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MissingValueError("the server sleeps; wake it"), "the server sleeps; wake it"),
        (FileNotFoundError(2, "No such file or directory", "/proc/x"), "source: /proc/x: No such file or directory"),
        (ValueError("no number"), "source: no number"),
        (KeyError("pgscan"), "source: unexpected KeyError: 'pgscan'"),
    ],
)
def test_a_failing_sensor_is_an_absent_metric_and_the_others_go_on(
    error: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    taking = sampler(gauge(failing(error, error, 3.0, error)) | gauge(lambda host: 1.0, "other"))
    with caplog.at_level(logging.INFO, "lbdns.agent"):
        sample = taking.sample(0.0, 1.0)
        assert sample.metrics == {"other": 1.0}
        assert sample.missing == {"m": reason}
        taking.sample(0.0, 1.0)
        assert [record.getMessage() for record in caplog.records] == [f"m: not measured: {reason}"]
        assert taking.sample(0.0, 1.0).metrics == {"m": 3.0, "other": 1.0}
        taking.sample(0.0, 1.0)
    assert [record.getMessage() for record in caplog.records] == [
        f"m: not measured: {reason}",
        "m: measured again",
        f"m: not measured: {reason}",
    ]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_not_reported(number: float) -> None:
    sample = sampler(gauge(lambda host: number)).sample(0.0, 1.0)
    assert sample.metrics == {}
    assert "is not a finite number" in sample.missing["m"]


def test_a_reason_for_one_metric_leaves_the_others_of_its_sensor(caplog: pytest.LogCaptureFixture) -> None:
    sensor: Sensor[int] = Sensor("page", lambda host: 1, lambda before, now, seconds: {"a": 1.0, "b": "no b here"})
    with caplog.at_level(logging.INFO, "lbdns.agent"):
        sample = sampler({"a": sensor, "b": sensor}).sample(0.0, 1.0)
    assert sample.metrics == {"a": 1.0}
    assert sample.missing == {"b": "no b here"}
    assert caplog.messages == ["b: not measured: no b here"]


def test_what_was_switched_off_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lbdns.agent"):
        sample = sampler(gauge(failing(SwitchedOffError("switched off")))).sample(0.0, 1.0)
    assert sample.missing == {"m": "switched off"}
    assert caplog.messages == []


def test_a_sensor_that_hangs_costs_its_own_metric(pipe_read_end: int) -> None:
    def hang(host: MeasuredHost) -> ReadingSteps[float]:
        yield DescriptorWait(pipe_read_end, 1)
        return 1.0

    metrics = gauge(lambda host: 2.0, "quick")
    metrics["slow"] = NonBlockingSensor("slow", hang, lambda before, now, seconds: {"slow": now}, 9 * PATIENCE)
    taking = sampler(metrics)
    start = time.monotonic()
    sample = taking.sample(0.05, 1.0)
    assert sample.metrics == {"quick": 2.0}
    assert sample.missing == {"slow": "slow: no response in time"}
    assert time.monotonic() - start < PATIENCE, "the sensor itself gives up much later"
    start = time.monotonic()
    assert taking.sample(2 * PATIENCE, 1.0).metrics == {"quick": 2.0}
    assert time.monotonic() - start < PATIENCE, "the sensor that was late is not waited for again"


def test_what_is_momentary_is_read_before_questions_are_asked_and_the_rest_after() -> None:
    order: list[str] = []

    def note(name: str) -> Callable[[MeasuredHost], float]:
        def read(host: MeasuredHost) -> float:
            order.append(name)
            return 1.0

        return read

    def ask(host: MeasuredHost) -> ReadingSteps[float]:
        order.append("asked")
        return 1.0
        yield

    metrics = gauge(note("rest"), "rest") | gauge(note("momentary"), "momentary", momentary=True)
    metrics["task"] = NonBlockingSensor("task", ask, lambda before, now, seconds: {"task": now}, 1.0)
    assert list(sampler(metrics).sample(0.1, 1.0).metrics) == ["rest", "momentary", "task"], "the table's order"
    assert order == ["momentary", "asked", "rest"]


def test_a_glance_reads_what_is_wanted_and_cheap() -> None:
    calls: list[str] = []

    def quick_read(name: str) -> Callable[[MeasuredHost], MetricValues]:
        def read(host: MeasuredHost) -> MetricValues:
            calls.append(name)
            return {name: 5.0}

        return read

    metrics = gauge(lambda host: 1.0, "a", quick_read=quick_read("a"))
    metrics |= gauge(lambda host: 1.0, "slow", quick_read=quick_read("slow"), quick_read_interval=60.0)
    metrics |= gauge(lambda host: 1.0, "dear")
    taking = sampler(metrics)
    taking.sample(0.0, 1.0)
    assert taking.quick_read(frozenset({"a", "slow", "dear"})) == {"a": 5.0}
    assert taking.quick_read(frozenset({"dear"})) == {}
    assert calls == ["a"], "what changes slowly was seen by the sample just now"


def test_a_glance_that_fails_says_nothing() -> None:
    def broken(host: MeasuredHost) -> MetricValues:
        raise OSError("gone")

    assert sampler(gauge(lambda host: 1.0, quick_read=broken)).quick_read(frozenset({"m"})) == {}


@pytest.mark.parametrize("kernel", ["2.6.32", "3.10", "4.19", "5.10", "6.1", "6.18"])
def test_all_sensors_on_every_kernel(kernel: str) -> None:
    sample = HostSampler(host_with_kernel(kernel), SensorTasks()).sample(0.0, 1.0)
    one_sample = {"run_queue", "cpu_count", "load1", "mem_available", "blocked_tasks", "mem_free", "swap_free", "load5"}
    assert one_sample <= set(sample.metrics)
    two_samples = {
        "cpu_idle", "cpu_steal", "scan_rate", "disk_busy", "disk_await", "net_rx", "net_tx", "page_in", "page_out",
        "cpu_user", "cpu_system", "cpu_iowait",
    }  # fmt: skip
    assert {name for name, why in sample.missing.items() if why == "this metric needs two samples"} == two_samples
    assert len(sample.metrics) + len(sample.missing) == len(METRIC_SENSORS)


def test_the_reason_of_an_error_is_one_line() -> None:
    assert failure_reason(TimeoutError("no response in time"), "gateway") == "gateway: no response in time"
