"""Tests of /metrics: metrics of pools, members and the process, the limit on series, and output in slices."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector as Registry

from lbdns import __version__
from lbdns.choosing.guard_rails.guard_rails import NO_GUARD, Guard
from lbdns.model.overrides import Override, Overrides
from lbdns_collector.prometheus import exposition
from lbdns_collector.prometheus.exposition import exposition_text, families, family, in_slices
from lbdns_collector.prometheus.status_families import (
    collector_families,
    history_families,
    lag_families,
    metric_families,
    metrics_text,
)
from lbdns_collector.reports.collector import Collector
from tests.collector.collector_fixtures import KEY, FakeSource, datagram, make_farm, reading
from tests.collector.web.served_app import served
from tests.monitoring.metrics_page import MetricsPage, documented, page_of

DAY = 86_400.0


def make_source(folder: Path, more: str = "") -> FakeSource:
    source = FakeSource(make_farm(folder, more=more))
    source.publish(gandalf=reading(age=0.5, interval=60.0), frodo=reading(age=9, score=7))
    return source


async def page(source: FakeSource) -> MetricsPage:
    found = page_of((await metrics_text(source, {"address": 3})).decode())
    assert [name for name in found if name.startswith("lbdns_") and not documented(name)] == []
    return found


async def test_over_http(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        web.source.publish(gandalf=reading(age=0.5))
        async with web.session.get(web.url("/metrics")) as response:
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert page_of(await response.text())["lbdns_member_score"] == {("web", "gandalf"): 80}


async def test_families_of_every_program(tmp_path: Path) -> None:
    found = await page(make_source(tmp_path))
    assert found["lbdns_reports_total"] == {("accepted",): 3, ("replay",): 1}
    assert [(labels[0], value) for labels, value in found["lbdns_build_info"].items()] == [(__version__, 1)]
    assert found["process_resident_memory_bytes"][()] > 1e6
    assert found["process_cpu_seconds_total"][()] > 0
    assert found["lbdns_http_refused_total"] == {("address",): 3}
    assert "lbdns_history_ok" not in found


async def test_members(tmp_path: Path) -> None:
    source = make_source(tmp_path)
    found = await page(source)
    assert found["lbdns_member_score"] == {("web", "gandalf"): 80, ("web", "frodo"): 7}
    assert found["lbdns_member_usable"] == {("web", "gandalf"): 1, ("web", "frodo"): 0, ("web", "bilbo"): 0}
    ages = found["lbdns_member_report_age_seconds"]
    assert set(ages) == {("web", "gandalf"), ("web", "frodo")}
    assert 8.9 < ages["web", "frodo"] < 60
    assert found["lbdns_member_series_omitted"] == {(): 0}
    assert not found.keys() & {"lbdns_member_quarantined", "lbdns_member_capacity"}, "nobody is handed out here"

    source.guarded = {"web": (NO_GUARD, Guard(ramp=0.4), Guard("it fails", 0.0, quarantined=True))}
    source.carried = {"web": ((3.0, 2.5, 0.5), True)}
    found = await page(source)
    assert found["lbdns_member_usable"]["web", "gandalf"] == 0
    assert found["lbdns_member_quarantined"] == {("web", "gandalf"): 1, ("web", "frodo"): 0, ("web", "bilbo"): 0}
    assert found["lbdns_member_ramp"] == {("web", "gandalf"): 1, ("web", "frodo"): 0.4, ("web", "bilbo"): 1}
    assert found["lbdns_member_capacity"] == {("web", "bilbo"): 3, ("web", "frodo"): 2.5, ("web", "gandalf"): 0.5}
    assert found["lbdns_pool_capacity_measured"] == {("web",): 1}


async def test_pools(tmp_path: Path) -> None:
    source = make_source(tmp_path)
    none = {(name, state): 0 for name in ("web",) for state in ("usable", "silent", "drained", "alarm", "unknown")}
    members = {**none, ("web", "quarantined"): 0}
    found = await page(source)
    assert found["lbdns_pool_members"] == {
        **members, ("web", "usable"): 1, ("web", "silent"): 1, ("web", "unknown"): 1,
    }  # fmt: skip
    source.guarded = {"web": (NO_GUARD, NO_GUARD, Guard("it fails", 0.0, quarantined=True))}
    source.drain("bilbo")
    found = await page(source)
    assert found["lbdns_pool_members"] == {
        **members, ("web", "quarantined"): 1, ("web", "silent"): 1, ("web", "drained"): 1,
    }  # fmt: skip


async def test_overrides(tmp_path: Path) -> None:
    source = make_source(tmp_path)
    now = time.time()
    source.overrides = Overrides((
        Override("drain", "frodo.hobbit", since=now - DAY),
        Override("drain", "gandalf.hobbit", "web", since=now),
        Override("weight", "gandalf.hobbit", "web", factor=0.5, since=now),
        Override("down", "gandalf.hobbit", "another pool", since=now),
        Override("down", "sauron.hobbit", since=now),
    ))  # fmt: skip
    found = await page(source)
    assert found["lbdns_pool_overrides"] == {
        ("web", "drain"): 2, ("web", "up"): 0, ("web", "down"): 0, ("web", "weight"): 1,
    }  # fmt: skip
    oldest = found["lbdns_pool_oldest_override_timestamp_seconds"]
    assert oldest == {("web", "drain"): now - DAY, ("web", "weight"): now}


async def test_reloads_and_other_events(tmp_path: Path) -> None:
    source = make_source(tmp_path)
    found = await page(source)
    assert found["lbdns_config_reloads_total"] == {("success",): 0, ("failure",): 0}
    assert found["lbdns_config_last_reload_successful"] == {(): 1}
    since = found["lbdns_config_last_reload_success_timestamp_seconds"][()]
    assert since == pytest.approx(time.time() - source.uptime_s, abs=8)

    source.events.record("reload", "the old configuration stays", level=logging.ERROR)
    found = await page(source)
    assert found["lbdns_config_reloads_total"] == {("success",): 0, ("failure",): 1}
    assert found["lbdns_config_last_reload_successful"] == {(): 0}
    assert found["lbdns_config_last_reload_success_timestamp_seconds"][()] == pytest.approx(since, abs=8)

    source.events.record("reload", "done")
    for _ in range(3):
        source.events.record("clock", "it is wrong", level=logging.WARNING)
    found = await page(source)
    assert found["lbdns_config_reloads_total"] == {("success",): 1, ("failure",): 1}
    assert found["lbdns_config_last_reload_successful"] == {(): 1}
    assert found["lbdns_config_last_reload_success_timestamp_seconds"][()] == pytest.approx(time.time(), abs=8)
    assert found["lbdns_events_total"]["clock", "warning"] == 3
    assert sum(found["lbdns_events_total"].values()) == 5


def test_history() -> None:
    found = page_of(generate_latest(Given(history_families({"ok": False, "error": "x", "dropped": 3, "bytes": 5}))))
    assert found == {
        "lbdns_history_ok": {(): 0}, "lbdns_history_dropped_total": {(): 3}, "lbdns_history_size_bytes": {(): 5},
    }  # fmt: skip
    assert all(map(documented, found))


async def test_lag() -> None:
    looks = {("main", 200): 7, ("main", 5000): 2, ("main", 123): 1, ("main", 0): 1, ("worker", 200): 4, ("x", 200): 1}
    found = page_of(await expose(lag_families(looks, {"main": 2_500_000, "worker": 100, "x": 1})))
    buckets = found["lbdns_event_loop_lag_seconds_bucket"]
    assert buckets["main", "0.000123"] == 1, "of another version"
    assert buckets["main", "0.0002"] == buckets["main", "0.002"] == 8
    assert buckets["main", "0.005"] == buckets["main", "1.0"] == 10
    assert buckets["main", "+Inf"] == found["lbdns_event_loop_lag_seconds_count"]["main",] == 11
    assert found["lbdns_event_loop_lag_seconds_sum"] == {("main",): 2.5, ("worker",): 0.0001}


async def test_metrics_of_the_source_are_there_too(tmp_path: Path) -> None:
    source = make_source(tmp_path)
    source.families = [family("lbdns_ring_bearers", "counter", "How many carried it", 4)]
    text = (await metrics_text(source)).decode()
    assert "# TYPE lbdns_ring_bearers_total counter\nlbdns_ring_bearers_total 4\n" in text


def test_metrics_of_a_collector(tmp_path: Path) -> None:
    collector = Collector(make_farm(tmp_path), (KEY,))
    for host, late in (("gandalf", 0.25), ("frodo", -2.0)):
        collector.table.accept(datagram(host, at=1000.0 + late), "", 1.0, 1000.0)
    found = page_of(generate_latest(Given(collector_families(collector))))
    assert found == {
        "lbdns_report_overflows_total": {(): 0},
        "lbdns_host_clock_skew_max_seconds": {(): 2.0},
        "lbdns_host_clock_skew_seconds": {("gandalf",): 0.25, ("frodo",): -2.0},
    }
    assert all(map(documented, found))


def test_persistent_senders_of_rejected_reports_have_a_series(tmp_path: Path) -> None:
    collector = Collector(make_farm(tmp_path), (KEY,))
    now = time.time()
    for seq, ago in enumerate((100.0, 50.0, 0.0), 1):
        collector.table.accept(datagram("typo", seq=seq, at=now), "192.0.2.9", 1.0, now - ago)
    collector.table.accept(b"once", "192.0.2.10", 1.0, now)
    found = page_of(generate_latest(Given(collector_families(collector))))
    assert found["lbdns_rejected_reports_total"] == {("typo", "unknown_host", "192.0.2.9"): 3}
    assert documented("lbdns_rejected_reports_total")


async def test_large_farms_get_no_series_per_member(tmp_path: Path) -> None:
    more = "max_member_series = 2\n"
    found = await page(make_source(tmp_path, more))
    assert found["lbdns_member_series_omitted"] == {(): 3}
    assert [name for name in found if name.startswith("lbdns_member_")] == ["lbdns_member_series_omitted"]
    assert found["lbdns_pool_members"]["web", "usable"] == 1
    collector = Collector(make_farm(tmp_path, more=more), (KEY,))
    collector.table.accept(datagram(at=1000.25), "", 1.0, 1000.0)
    assert [found.name for found in collector_families(collector)] == [
        "lbdns_report_overflows", "lbdns_host_clock_skew_max_seconds",
    ]  # fmt: skip


async def expose(pieces: Iterable[Metric]) -> bytes:
    return b"".join(await in_slices(exposition_text(pieces)))


class Given(Registry):
    """A prometheus_client collector that returns fixed families."""

    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


async def test_the_text_equals_prometheus_client_s() -> None:
    strange = 'a "b"\\c\nd ü'
    gauge = GaugeMetricFamily("one", strange, labels=("x", "y"))
    for number, value in enumerate(
        [0, 1, True, 2.5, -3, 1e-9, 1.5e300, 123456789012345, math.inf, -math.inf, math.nan]
    ):
        gauge.add_metric((strange, str(number)), value)
    counter = CounterMetricFamily("two", "2", value=3)
    histogram = HistogramMetricFamily("three", "3", buckets=[("0.1", 1), ("+Inf", 4)], sum_value=2.5)
    found = [gauge, counter, histogram]
    ours, theirs = (await expose(found)).decode(), generate_latest(Given(found)).decode()
    read, wanted = (
        [
            (family.name, family.documentation, family.type, sample.name, sample.labels, repr(float(sample.value)))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
        for text in (ours, theirs)
    )
    assert read == wanted
    assert len(read) == 16
    assert [line for line in ours.splitlines() if line[0] == "#"] == [
        line for line in theirs.splitlines() if line[0] == "#"
    ]


async def test_a_long_family_is_one() -> None:
    rows = [((f"m{number}",), float(number)) for number in range(exposition.ROWS * 3 + 1)]
    pieces = list(families("many", "counter", "Many", ("member",), rows))
    assert len(pieces) == 4
    text = (await expose(pieces)).decode()
    assert text.count("# HELP") == text.count("# TYPE") == 1
    assert page_of(text)["many_total"] == dict(rows)
    assert list(families("none", "gauge", "None", ("member",), [])) == []


async def test_others_have_their_turn_while_a_long_page_is_made() -> None:
    """Between two slices, the event loop runs other tasks; these breaks are longer than the slices."""
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1
        handle.append(loop.call_later(0.0005, count))

    def pieces() -> Iterator[Metric]:
        for number in range(20):
            until = time.perf_counter() + exposition.SLICE
            while time.perf_counter() < until:
                pass
            yield family(f"metric_{number}", "gauge", "A number", number)

    loop = asyncio.get_running_loop()
    handle: list[asyncio.TimerHandle] = []
    count()
    assert len(page_of(await expose(pieces()))) == 20
    handle[-1].cancel()
    assert turns >= 20


async def test_every_family_has_a_name_a_type_and_a_text(tmp_path: Path) -> None:
    source = make_source(tmp_path)
    for found in metric_families(source):
        assert found.documentation, found.name
        assert found.type in ("gauge", "counter", "histogram"), found.name
