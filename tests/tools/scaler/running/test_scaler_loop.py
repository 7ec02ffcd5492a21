"""Rounds of the loop on a fake farm: views, decisions, rows, and what happens if something is not known."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lbdns_tools.scaler.demand.demand_source import DemandError, DemandReading, ServerLoad
from lbdns_tools.scaler.running.scaler_status import status_document
from lbdns_tools.scaler.running.terminal_view import PROGRESS_HEADING, progress_line
from lbdns_tools.scaler.settings.scaler_sections import ScalerSection
from tests.tools.scaler.running.scaled_loop import Scaled


async def test_servers_follow_demand_within_the_limits(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection(minimum=1, maximum=4))
    await scaled.driver.look()
    for rate, expected in ((0.0, 1), (32.0, 3), (90.0, 4)):
        await scaled.round(rate)
        assert scaled.driver.count("in service") == expected
    decision = scaled.loop.decision
    assert decision is not None
    assert (decision.recommended, decision.limited.servers) == (9, 4)
    assert decision.limited.reason == "Each ten requests/s need a server. The farm may have at most 4 servers."
    await scaled.round(8.0, seconds=30)
    assert scaled.driver.count("in service") == 1
    assert scaled.driver.farm.broken_promises == []


async def test_rounds_survive_a_restart(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection())
    await scaled.driver.look()
    await scaled.round(20.0)
    await scaled.round(30.0)
    scaled.file.close()
    again = Scaled(tmp_path, ScalerSection(), farm=scaled.driver.farm)
    assert [past.demand.requests_per_s for past in again.loop.rounds] == [20.0, 30.0]
    assert [past.decided for past in again.loop.rounds] == [2, 3]


async def test_without_demand_nothing_changes(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection())
    await scaled.driver.look()
    await scaled.round(20.0)
    scaled.demand.reading = DemandError("no response")
    assert await scaled.loop.decide() is None
    assert scaled.loop.trouble == "no response"
    assert scaled.driver.count("in service") == 2
    await scaled.round(20.0)
    assert scaled.loop.trouble == ""


async def test_a_dry_run_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scaled = Scaled(tmp_path, ScalerSection(), dry_run=True)
    await scaled.driver.look()
    with caplog.at_level("INFO"):
        await scaled.round(20.0)
    assert scaled.driver.farm.found == {}
    assert "dry run: web-2: wanted (Each ten requests/s need a server.)" in caplog.messages


async def test_a_dry_run_logs_the_wanted_number_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scaled = Scaled(tmp_path, ScalerSection(), dry_run=True)
    await scaled.driver.look()
    with caplog.at_level("INFO"):
        for rate in (20.0, 20.0, 30.0, 30.0):
            await scaled.round(rate)
    lines = [message for message in caplog.messages if " wanted. " in message]
    expected = ("2 servers", "3 servers")
    assert lines == [f"dry run: {text} wanted. Each ten requests/s need a server." for text in expected]


async def test_new_servers_count_neither_as_warm_nor_as_demand(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection(warm_up=30.0, period=15.0))
    await scaled.driver.look()
    await scaled.round(20.0, seconds=60)
    load = {"web-1": ServerLoad(20.0, 50.0, 40.0), "web-2": ServerLoad(10.0, 70.0, 60.0)}
    await scaled.round(30.0, load, seconds=8)  # a third server begins
    scaled.demand.reading = DemandReading(129.0, {**load, "web-3": ServerLoad(99.0, 100.0)}, includes_benchmarks=True)
    await scaled.loop.decide()
    view = scaled.policy.views[-1]
    assert view.demand.requests_per_s == 30.0
    assert view.demand.cpu_percent == 60.0
    assert view.capacity == 50.0


async def test_all_requests_that_arrive_count_as_demand(tmp_path: Path) -> None:
    """A balancer also counts requests that wait in a queue or find no server."""
    scaled = Scaled(tmp_path, ScalerSection())
    await scaled.driver.look()
    await scaled.round(20.0, seconds=60)
    await scaled.round(75.0, {"web-1": ServerLoad(20.0), "web-2": ServerLoad(20.0)})
    assert scaled.policy.views[-1].demand.requests_per_s == 75.0


async def test_after_the_clock_was_set_back_no_round_lies_in_the_future(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection())
    await scaled.driver.look()
    for _ in range(4):
        await scaled.round(20.0)
    scaled.driver.farm.jump(-40.0)
    await scaled.round(30.0)
    now = scaled.loop.rounds[-1].demand.time
    assert [now - past.demand.time for past in scaled.loop.rounds] == [20.0, 5.0, 0.0]
    scaled.file.close()
    again = Scaled(tmp_path, ScalerSection(), farm=scaled.driver.farm)
    assert again.loop.rounds[-1].demand.time == now


async def test_an_unexpected_answer_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scaled = Scaled(tmp_path, ScalerSection())
    await scaled.driver.look()
    scaled.demand.reading = KeyError("metrics")
    assert await scaled.loop.measure() is None
    assert await scaled.loop.decide() is None
    assert scaled.loop.trouble == "unexpected error: KeyError('metrics')"
    assert len([record for record in caplog.records if record.exc_info]) == 1


async def test_servers_that_the_provider_does_not_delete_are_not_replaced_forever(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection(maximum=2, spares=1))
    farm = scaled.driver.farm
    farm.broken, farm.undeletable = frozenset(f"web-{number}" for number in range(100)), True
    for _ in range(40):
        await scaled.round(20.0)
    assert len(farm.found) == 5  # twice the maximum, and the spare


async def test_each_decision_is_a_line_on_a_terminal(tmp_path: Path) -> None:
    scaled = Scaled(tmp_path, ScalerSection())
    lines: list[str] = []
    scaled.loop.on_decision = lambda: lines.append(progress_line(status_document(scaled.loop, 0.0)))
    await scaled.driver.look()
    for rate in (20.0, 20.0, 10.0):
        await scaled.round(rate)
    assert [line.split() for line in lines] == [
        ["20.0", "2", "0", "2", "0", "0", "++"], ["20.0", "2", "2", "0", "0", "0", "##"],
        ["10.0", "1", "1", "0", "1", "0", "#-"],
    ]  # fmt: skip
    assert all(line.index(line.split()[0]) + 4 == PROGRESS_HEADING.index("  wanted") for line in lines)


async def test_an_unexpected_error_does_not_end_the_loop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scaled = Scaled(tmp_path, ScalerSection(look=0.2, period=1.0))
    stop = asyncio.Event()

    async def fail() -> None:
        if len(caplog.records) >= 2:
            stop.set()
        raise RuntimeError("a test")

    scaled.loop.fleet.look = fail  # type: ignore[method-assign]
    await asyncio.wait_for(scaled.loop.run(stop), 60)
    assert "unexpected error; the scaler continues" in caplog.messages
