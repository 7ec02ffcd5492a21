"""The text page: its lines, and that other programs can read it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.host_sampler import HostSample
from lbdns_agent.sources.prometheus_sample import PrometheusSample
from lbdns_agent.text_page.figures_page import HOST_FIGURES, PageSample, figures_page
from lbdns_shared.metric_catalogue import CATALOGUE, RESERVED

METRICS = {
    "cpu_user": 12.345, "cpu_idle": 80.0, "load1": 0.5, "run_queue": 3.0, "process_count": 141.0,
    "page_out": 172_032.0, "mem_free": 1024.0**3, "sessions": 7.0,
}  # fmt: skip
MISSING = {"gateway_ping": "no reply\nin time"}
PAGE = """\
# web-1: the last sample of lbdns-agent
# no alarm
sample_time 1795877401.125
sample_age_seconds 0.500
sample_interval_seconds 1

# Figures of the host
cpu_user_percent 12.345
cpu_idle_percent 80
load_1min 0.500
processes_running 3
processes_total 141
disk_written_kb_per_s 168
memory_free_kb 1048576

# Metrics
cpu_user 12.345
cpu_idle 80
load1 0.500
run_queue 3
process_count 141
page_out 172032
mem_free 1073741824
sessions 7

# Missing metrics
# gateway_ping: no reply in time
"""


def page(sample: HostSample, alarm: str = "") -> str:
    return figures_page("web-1", 1.0, alarm, PageSample(sample, 1795877401.125, 100.0), 100.5)


def test_the_page() -> None:
    assert page(HostSample(METRICS, MISSING)) == PAGE


def test_an_alarm_is_a_comment_of_one_line() -> None:
    assert (
        page(HostSample({}, {}), "run_queue 70 > 64\nand more").splitlines()[1] == "# alarm: run_queue 70 > 64 and more"
    )


def test_figures_are_those_of_known_metrics_and_have_names_of_their_own() -> None:
    assert {metric for metric, _ in HOST_FIGURES.values()} <= CATALOGUE.keys()
    assert HOST_FIGURES.keys().isdisjoint(CATALOGUE.keys() | RESERVED)


@given(st.dictionaries(st.sampled_from(list(CATALOGUE)), st.floats(-1e15, 1e15)), st.text(), st.text())
def test_every_line_is_a_comment_or_a_name_and_a_number(metrics: dict[str, float], why: str, alarm: str) -> None:
    text = page(HostSample(metrics, {"scan_rate": why}), alarm)
    found = {}
    for line in text.split("\n"):
        if line and not line.startswith("#"):
            name, number = line.split(" ")
            found[name] = float(number)
    for name, value in metrics.items():
        assert found[name] == pytest.approx(value, abs=0.001)
        assert PrometheusSample(name, frozenset()).find(text.encode()) == pytest.approx(value, abs=0.001)
    assert {metric for name, (metric, _) in HOST_FIGURES.items() if name in found} == {
        metric for metric, _ in HOST_FIGURES.values() if metric in metrics
    }
