"""Tests of charts: which rates of a disk they show, which devices are drawn, and where lines are interrupted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from lbdns_agent.recorder.diskstats import COUNTERS
from lbdns_agent.recorder.recorded_charts import MAX_DEVICES, POINTS, Chart, busiest, charts
from lbdns_agent.recorder.recorded_file import CounterRow, RecordedRows, read_file
from tests.agent.recorder.recorders import DISKSTATS


def row(time: float, **counters: int) -> CounterRow:
    return CounterRow(time, tuple(counters.get(name, 0) for name in COUNTERS))


def disks(**rows: Sequence[CounterRow]) -> RecordedRows:
    return RecordedRows(disks={device: list(found) for device, found in rows.items()})


def values(chart: Chart) -> dict[str, list[float]]:
    """Return the value of each line at the end of each part."""
    return {line.label: [round(value, 6) for value in line.values[1::2]] for line in chart.lines}


def test_the_charts_of_a_disk() -> None:
    first = row(10.0)
    second = row(
        12.0, reads=100, sectors_read=4000, read_ms=250, writes=10, sectors_written=8000, write_ms=40, busy_ms=500,
        discards=4,
    )  # fmt: skip
    requests, data, duration, busy = charts(disks(sda=[first, second]), ["sda"])
    assert (requests.title, requests.unit) == ("sda: requests", "requests/s")
    assert values(requests) == {"read": [50.0], "write": [5.0], "discard": [2.0]}  # no flushes: no line
    assert list(requests.lines[0].times) == [10.0, 12.0]
    assert (values(data), data.unit) == ({"read": [1.024], "write": [2.048]}, "MB/s")
    assert (values(duration), duration.unit) == ({"read": [2.5], "write": [4.0]}, "ms")
    assert (values(busy), busy.unit) == ({"busy": [25.0]}, "%")


def test_the_rates_of_2014() -> None:
    requests, data, duration, busy = charts(read_file(DISKSTATS / "mon_vda.csv"), ["vda"])
    assert values(requests)["write"] == [pytest.approx(17 / 1.002254, abs=1e-4)]
    assert values(data)["write"] == [pytest.approx(0.172032 / 1.002254, abs=1e-6)]
    assert values(duration)["write"] == [pytest.approx(31 / 17, abs=1e-6)]
    assert math.isnan(values(duration)["read"][0]), "without a request, there is no mean"
    assert values(busy)["busy"] == [pytest.approx(0.3 / 1.002254, abs=1e-5)]


def test_a_restart_interrupts_the_lines() -> None:
    rows = [row(1.0, reads=100), row(2.0, reads=110), row(3.0, reads=5), row(4.0, reads=25)]
    line = charts(disks(sda=rows), ["sda"])[0].lines[0]
    assert list(line.times) == [1.0, 2.0, 2.0, 3.0, 4.0]
    assert [value for value in line.values if not math.isnan(value)] == [10.0, 10.0, 20.0, 20.0]
    assert math.isnan(line.values[2])


def test_long_recordings_are_averaged() -> None:
    rows = [row(float(time), reads=time * (time % 2)) for time in range(0, 10 * POINTS, 2)]
    rows = [row(time, reads=int(3 * time)) for time, _ in rows]
    line = charts(disks(sda=rows), ["sda"])[0].lines[0]
    assert len(line.times) <= 2 * POINTS + 2
    assert set(line.values) == {3.0}
    metrics = RecordedRows(metrics={"load1": [(float(time), time % 2) for time in range(10 * POINTS)]})
    (chart,) = charts(metrics, [])
    assert len(chart.lines[0].times) <= POINTS + 1
    assert chart.lines[0].values[3] == pytest.approx(0.5, abs=0.1)


def test_idle_devices_are_left_out_unless_all_are_idle() -> None:
    idle, active = [row(1.0), row(2.0)], [row(1.0), row(2.0, sectors_read=8)]
    assert busiest({"loop0": idle, "sda": active, "sdb": idle, "sdc": active}) == ["sda", "sdc"]
    assert busiest({"loop0": idle, "sdb": idle}) == ["loop0", "sdb"]
    assert busiest({}) == []


def test_the_busiest_devices_are_drawn_in_the_order_of_the_file() -> None:
    found = {f"sd{number}": [row(1.0), row(2.0, sectors_read=1 + number)] for number in range(MAX_DEVICES + 3)}
    assert busiest(found) == [f"sd{number}" for number in range(3, MAX_DEVICES + 3)]


def test_metrics_and_their_rates() -> None:
    nan = math.nan
    rows = RecordedRows(
        metrics={
            "load1": [(1.0, 0.5), (2.0, nan), (3.0, 1.5)],
            "requests_total": [(1.0, 100.0), (3.0, 120.0), (5.0, 4.0), (7.0, 10.0)],
            "idle_workers": [(1.0, nan), (2.0, nan)],
        }
    )
    load, requests = charts(rows, [])
    assert (load.title, load.unit) == ("load1", "tasks")
    assert [value for value in load.lines[0].values if not math.isnan(value)] == [0.5, 1.5]
    assert math.isnan(load.lines[0].values[1])
    assert (requests.title, requests.unit) == ("requests_total", "requests/s")
    assert list(requests.lines[0].times) == [3.0, 5.0, 7.0]
    assert [requests.lines[0].values[at] for at in (0, 2)] == [10.0, 3.0]
    assert math.isnan(requests.lines[0].values[1]), "the web server restarted"


def test_a_pause_interrupts_the_line_of_a_metric() -> None:
    (chart,) = charts(RecordedRows(metrics={"load1": [(time, 1.0) for time in (1.0, 2.0, 3.0, 50.0, 51.0)]}), [])
    assert [math.isnan(value) for value in chart.lines[0].values] == [False, False, False, True, False, False]


@pytest.mark.parametrize(
    "rows", [disks(), disks(sda=[row(1.0)]), disks(sda=[row(1.0, reads=5), row(2.0)]), RecordedRows(metrics={})]
)
def test_nothing_to_draw(rows: RecordedRows) -> None:
    with pytest.raises(ValueError, match="nothing to draw: a rate needs two rows"):
        charts(rows, list(rows.disks))
