"""The status document and the metrics of a scaler, and their text for terminals."""

from __future__ import annotations

from pathlib import Path

from lbdns_tools.scaler.demand.demand_source import ServerLoad
from lbdns_tools.scaler.running.scaler_status import MAX_POINTS, metric_families, status_document
from lbdns_tools.scaler.running.terminal_view import plan_text, status_text
from lbdns_tools.scaler.settings.scaler_sections import ScalerSection
from tests.tools.scaler.running.scaled_loop import Scaled


async def test_status_and_metrics(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection(maximum=5))
    await scaled.driver.look()
    document = status_document(scaled.loop, scaled.driver.farm.now)
    assert (document["demand"], document["wanted"], document["servers"]) == (None, None, [])
    assert status_text(document).startswith("farm web: no servers (minimum 1, maximum 5; policy queue)")
    await scaled.round(20.0, seconds=30)
    await scaled.round(31.0, {"web-1": ServerLoad(31.0, 50.0, 40.0, 3.0)}, seconds=2)
    document = status_document(scaled.loop, scaled.driver.farm.now)
    assert document["counts"]["in service"] == 2
    assert [server["name"] for server in document["servers"]] == ["web-1", "web-2", "web-3"]
    assert document["rounds"][-1] == {
        "time": 1_000_031.0, "requests_per_s": 31.0, "in_service": 2, "recommended": 3,
    }  # fmt: skip
    text = plan_text(document)
    assert "wanted: 3 servers. Each ten requests/s need a server." in text
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in metric_families(scaled.loop)
        for sample in family.samples
    }
    assert samples["lbdns_scaler_servers", "in service"] == 2
    assert samples[("lbdns_scaler_trouble",)] == 0


async def test_many_rounds_are_thinned_out(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection())
    await scaled.driver.look()
    for _ in range(MAX_POINTS + 10):
        await scaled.round(20.0, seconds=0)
        scaled.driver.farm.advance(1.0)
    rounds = status_document(scaled.loop, scaled.driver.farm.now)["rounds"]
    assert len(rounds) == MAX_POINTS // 2 + 5
    assert rounds[-1]["time"] == scaled.loop.rounds[-1].demand.time
    times = [each["time"] for each in rounds]
    assert times == sorted(times)


async def test_the_text_names_trouble_failures_and_held_servers(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection())
    await scaled.driver.look()
    await scaled.round(20.0, seconds=30)
    scaled.driver.farm.held.add("web-1")
    await scaled.driver.look()
    scaled.driver.farm.down = "no response"
    await scaled.driver.look()
    text = status_text(status_document(scaled.loop, scaled.driver.farm.now))
    assert "\ntrouble: no response\n" in text
    assert "\nfailures: 1 x look" in text
    assert "web-1   in service (held by an operator)  " in text
