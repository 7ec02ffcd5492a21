"""Tests of the page benchmark: its farm, its calculations, and its page readers, which use a dummy server."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import pytest

from lbdns.model.farm_reader import load_farm
from lbdns_tools.bench.page_reader_cost import _farm, page_farm, per_second, reader_counts, summary
from lbdns_tools.bench.page_readers import DummyServer, PageReaders
from lbdns_tools.free_ports import free_port


def test_a_farm_with_pages(tmp_path: Path) -> None:
    farm, port, names = page_farm(tmp_path, "auto", 2, 3)
    loaded = load_farm(farm.config)
    assert [len(pool.members) for pool in loaded.pools] == [3, 3, 3]
    assert set(names) < set(loaded.hosts)
    assert loaded.config.web.listen is not None
    assert loaded.config.web.listen.port == port


@pytest.mark.parametrize(("text", "farm"), [("0x0", (0, 0)), ("5x200", (5, 200))])
def test_farms(text: str, farm: tuple[int, int]) -> None:
    assert _farm(text) == farm


@pytest.mark.parametrize("text", ["", "5", "x", "5x", "-1x3", "101x100"])
def test_text_that_is_not_a_farm(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="5x200"):
        _farm(text)


def test_counts_come_from_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    assert reader_counts(log) == {}
    log.write_text('{"time": 1.0, "answers": 3}\n{"time": 3.0, "answers": 8}\n{"time": 4.')
    assert reader_counts(log) == {"time": 3.0, "answers": 8}
    assert per_second({"time": 1.0, "answers": 3}, {"time": 3.0, "answers": 8}) == {"answers_per_s": 2.5}


def test_ratios_are_taken_within_a_round() -> None:
    rounds = {
        name: [dict.fromkeys(("kernel_p99_ms", "dnsperf_p99_ms"), value) for value in values]
        for name, values in {"dummy": [1.0, 2.0, 4.0], "lbdns": [1.1, 2.0, 2.0]}.items()
    }
    found = summary(rounds)
    assert (found["kernel_p99_ratio"], found["kernel_p99_ratios"]) == (1.0, [1.1, 1.0, 0.5])


async def test_readers_read_from_the_dummy() -> None:
    port = free_port()
    serving = asyncio.create_task(DummyServer(1000.0, 10, 10_000.0).run(port))
    readers = PageReaders(port)
    reading = asyncio.create_task(readers.run())
    async with asyncio.timeout(120):
        while readers.counts["answers"] < 50 or not readers.counts["event_bytes"]:  # noqa: ASYNC110  the counters have no event
            await asyncio.sleep(0.01)
    for task in (reading, serving):
        task.cancel()
    await asyncio.gather(reading, serving, return_exceptions=True)
    assert readers.counts["answer_bytes"] == 10 * readers.counts["answers"]
    assert readers.counts["refused"] == 0
