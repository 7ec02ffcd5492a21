from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import METRICS
from lbdns_agent.overload import DEFAULT_CONDITIONS, LONGEST_TEXT, Condition, overload, parse_condition


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("run_queue>100", Condition("run_queue", ">", 100)),
        (" run_queue/cpu >= 1.5 ", Condition("run_queue", ">=", 1.5, per_cpu=True)),
        ("run_queue / cpu>64", Condition("run_queue", ">", 64, per_cpu=True)),
        ("mem_available<2", Condition("mem_available", "<", 2)),
        ("cpu_idle <= 1e1", Condition("cpu_idle", "<=", 10)),
    ],
)
def test_parse(text: str, condition: Condition) -> None:
    assert parse_condition(text, METRICS) == condition


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("run_queu>100", "'run_queu' is no metric. Perhaps you meant 'run_queue'?"),
        ("zzz>100", "'zzz' is no metric; known: run_queue, cpu_idle"),
        ("run_queue", "is no condition such as"),
        ("run_queue=5", "is no condition such as"),
        ("run_queue>", "is no condition such as"),
        ("run_queue/disk>5", "is no condition such as"),
        ("run_queue>many", "'many' is no number"),
        ("run_queue>nan", "'nan' is no number"),
        ("run_queue>inf", "'inf' is no number"),
        ("run_queue>=>5", "'>5' is no number"),
    ],
)
def test_what_is_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match="no ") as raised:
        parse_condition(text, METRICS)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("text", "metrics", "alarm"),
    [
        ("run_queue>100", {"run_queue": 130.0}, "run_queue 130 > 100"),
        ("run_queue>100", {"run_queue": 100.0}, ""),
        ("run_queue>=100", {"run_queue": 100.0}, "run_queue 100 >= 100"),
        ("mem_available<2", {"mem_available": 1.234567}, "mem_available 1.235 < 2"),
        ("mem_available<=2", {"mem_available": 2.5}, ""),
        ("run_queue>100", {}, ""),
        ("run_queue/cpu>64", {"run_queue": 140.0, "cpu_count": 2.0}, "run_queue/cpu 70 > 64"),
        # Of a part of a core, a queue is as long as it is
        ("run_queue/cpu>64", {"run_queue": 40.0, "cpu_count": 0.5}, ""),
        ("run_queue/cpu>64", {"run_queue": 64.0, "cpu_count": 0.07}, ""),
        ("run_queue/cpu>64", {"run_queue": 65.0, "cpu_count": 0.07}, "run_queue/cpu 65 > 64"),
        ("run_queue/cpu>64", {"run_queue": 120.0, "cpu_count": 1.5}, "run_queue/cpu 80 > 64"),
        ("run_queue/cpu>64", {"run_queue": 140.0}, ""),
        ("run_queue/cpu>64", {"run_queue": 140.0, "cpu_count": 0.0}, ""),
    ],
)
def test_alarm(text: str, metrics: dict[str, float], alarm: str) -> None:
    assert overload([parse_condition(text, METRICS)], metrics) == alarm


def test_several_conditions_are_all_said_and_cut_at_a_length() -> None:
    conditions = [parse_condition(f"run_queue>{limit}", METRICS) for limit in range(1, 40)]
    assert overload(conditions[:2], {"run_queue": 5.0}) == "run_queue 5 > 1; run_queue 5 > 2"
    text = overload(conditions, {"run_queue": 50.0})
    assert len(text) == LONGEST_TEXT
    assert text.endswith("...")


def test_the_default_is_quiet_on_a_healthy_host_and_not_on_a_sick_one() -> None:
    conditions = [parse_condition(text, METRICS) for text in DEFAULT_CONDITIONS]
    healthy = {"run_queue": 8.0, "cpu_count": 2.0, "mem_available": 40.0, "listen_queue": 3.0}
    assert overload(conditions, healthy) == ""
    for sick in ({"run_queue": 129.0}, {"mem_available": 1.0}, {"listen_queue": 257.0}):
        assert overload(conditions, healthy | sick) != ""


@given(st.text())
def test_any_text_is_a_condition_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_condition(text, METRICS)


@given(st.sampled_from(sorted(METRICS)), st.booleans(), st.sampled_from([">", ">=", "<", "<="]), st.integers())
def test_what_is_shown_reads_the_same_again(metric: str, per_cpu: bool, comparison: str, limit: int) -> None:
    condition = Condition(metric, comparison, limit % 100_000, per_cpu)
    assert parse_condition(str(condition), METRICS) == condition
