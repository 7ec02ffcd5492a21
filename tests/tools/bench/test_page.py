"""The benchmark of pages: its farm, its arithmetic, and that its readers and its dummy understand each other."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import pytest

from lbdns.farm import load_farm
from lbdns_tools.bench.page import FIGURES, Counts, _farm, page_farm, per_second, summary
from lbdns_tools.bench.page_load import Dummy, Hammer
from lbdns_tools.ports import free_port


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
def test_no_farms(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="5x200"):
        _farm(text)


def test_counts_are_of_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    assert Counts(log).newest() == {}
    log.write_text('{"time": 1.0, "answers": 3}\n{"time": 3.0, "answers": 8}\n{"time": 4.')
    assert Counts(log).newest() == {"time": 3.0, "answers": 8}
    assert per_second({"time": 1.0, "answers": 3}, {"time": 3.0, "answers": 8}) == {"answers_per_s": 2.5}


def test_ratios_are_of_the_same_round() -> None:
    rounds = {
        name: [dict.fromkeys(FIGURES, value) for value in values]
        for name, values in {"dummy": [1.0, 2.0, 4.0], "lbdns": [1.1, 2.0, 2.0]}.items()
    }
    found = summary(rounds)
    assert (found["kernel_p99_ratio"], found["kernel_p99_ratios"]) == (1.0, [1.1, 1.0, 0.5])


async def test_readers_read_from_the_dummy() -> None:
    port = free_port()
    serving = asyncio.create_task(Dummy(1000.0, 10, 10_000.0).run(port))
    hammer = Hammer(port)
    reading = asyncio.create_task(hammer.run())
    async with asyncio.timeout(20):
        while hammer.counts["answers"] < 50 or not hammer.counts["event_bytes"]:  # noqa: ASYNC110  counts tell nobody
            await asyncio.sleep(0.01)
    for task in (reading, serving):
        task.cancel()
    await asyncio.gather(reading, serving, return_exceptions=True)
    assert hammer.counts["answer_bytes"] == 10 * hammer.counts["answers"]
    assert hammer.counts["refused"] == 0
