from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.alarm_conditions import (
    DEFAULT_CONDITIONS,
    MAX_REASON_LENGTH,
    AlarmCondition,
    alarm_reason,
    parse_alarm_condition,
)
from lbdns_shared.metric_catalogue import CATALOGUE


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("run_queue>100", AlarmCondition("run_queue", ">", 100)),
        (" run_queue/cpu >= 1.5 ", AlarmCondition("run_queue", ">=", 1.5, per_cpu=True)),
        ("run_queue / cpu>64", AlarmCondition("run_queue", ">", 64, per_cpu=True)),
        ("mem_available<2", AlarmCondition("mem_available", "<", 2)),
        ("cpu_idle <= 1e1", AlarmCondition("cpu_idle", "<=", 10)),
    ],
)
def test_parse(text: str, condition: AlarmCondition) -> None:
    assert parse_alarm_condition(text, CATALOGUE) == condition


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("run_queu>100", "unknown metric 'run_queu'. Perhaps you meant 'run_queue'?"),
        ("zzz>100", "unknown metric 'zzz'; the metrics are: run_queue, cpu_idle"),
        ("run_queue", "is not a valid condition; write, for example"),
        ("run_queue=5", "is not a valid condition; write, for example"),
        ("run_queue>", "is not a valid condition; write, for example"),
        ("run_queue/disk>5", "is not a valid condition; write, for example"),
        ("run_queue>many", "'many' is not a finite number"),
        ("run_queue>nan", "'nan' is not a finite number"),
        ("run_queue>inf", "'inf' is not a finite number"),
        ("run_queue>=>5", "'>5' is not a finite number"),
    ],
)
def test_what_is_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        parse_alarm_condition(text, CATALOGUE)


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
    assert alarm_reason([parse_alarm_condition(text, CATALOGUE)], metrics) == alarm


def test_several_conditions_are_all_said_and_cut_at_a_length() -> None:
    conditions = [parse_alarm_condition(f"run_queue>{limit}", CATALOGUE) for limit in range(1, 40)]
    assert alarm_reason(conditions[:2], {"run_queue": 5.0}) == "run_queue 5 > 1; run_queue 5 > 2"
    text = alarm_reason(conditions, {"run_queue": 50.0})
    assert len(text) == MAX_REASON_LENGTH
    assert text.endswith("...")


def test_the_default_is_quiet_on_a_healthy_host_and_not_on_a_sick_one() -> None:
    conditions = [parse_alarm_condition(text, CATALOGUE) for text in DEFAULT_CONDITIONS]
    healthy = {"run_queue": 8.0, "cpu_count": 2.0, "mem_available": 40.0, "listen_queue": 3.0}
    assert alarm_reason(conditions, healthy) == ""
    for sick in ({"run_queue": 129.0}, {"mem_available": 1.0}, {"listen_queue": 257.0}):
        assert alarm_reason(conditions, healthy | sick) != ""


@given(st.text())
def test_any_text_is_a_condition_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_alarm_condition(text, CATALOGUE)


@given(st.sampled_from(sorted(CATALOGUE)), st.booleans(), st.sampled_from([">", ">=", "<", "<="]), st.integers())
def test_what_is_shown_reads_the_same_again(metric: str, per_cpu: bool, comparison: str, limit: int) -> None:
    condition = AlarmCondition(metric, comparison, limit % 100_000, per_cpu)
    assert parse_alarm_condition(str(condition), CATALOGUE) == condition
