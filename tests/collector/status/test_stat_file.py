"""Tests of the stat file: its atomic replacement, reloads, and disk failures."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from pathlib import Path

import pytest

from lbdns.model.farm import Farm
from lbdns.process.atomic_file import replace_file
from lbdns_collector.status import stat_file
from lbdns_collector.status.stat_file import StatFile
from tests.collector.collector_fixtures import FakeSource, make_farm, reading, until
from tests.collector.status.stat_rows import rows


def test_replacing(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    before = os.umask(0o077)
    try:
        replace_file(path, "one\n")
    finally:
        os.umask(before)
    kept = path.open()
    replace_file(path, "two\n")
    with kept:
        assert kept.read() == "one\n"  # a reader that has the file open reads the old version to its end
    assert path.read_text() == "two\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["stat"]


def test_a_failed_replacement_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.mkdir()
    with pytest.raises(OSError, match=r"directory"):
        replace_file(path, "text")
    assert os.listdir(tmp_path) == ["stat"]


def farm_with(tmp_path: Path, name: str) -> Farm:
    return make_farm(tmp_path, collector=f'stat_file = "{name}"')


def scores(path: Path) -> dict[str, str]:
    return {name: row["score"] for name, row in rows(path.read_text()).items()} if path.exists() else {}


async def test_is_kept_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stat_file, "PERIOD", 0.01)
    source = FakeSource(farm_with(tmp_path, "stat"))
    keeper = StatFile(source)
    keeper.start()
    try:
        await until(lambda: scores(tmp_path / "stat").get("gandalf") == "")
        source.publish(gandalf=reading(score=1), frodo=reading(score=2))
        await until(lambda: scores(tmp_path / "stat")["gandalf"] == "1")
        source.farm = farm_with(tmp_path, "other")  # a reload
        await until(lambda: scores(tmp_path / "other").get("frodo") == "2")
    finally:
        await keeper.stop()
    assert keeper.failures == 0


async def test_a_reload_changes_the_format(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    source = FakeSource(farm_with(tmp_path, "stat"))
    keeper = StatFile(source)
    source.publish(gandalf=reading(age=60))  # all are silent: the file is rewritten only if something changes
    await keeper.update(path)
    assert path.read_text().startswith("# member:")
    source.farm = make_farm(tmp_path, collector='stat_file = "stat"\nstat_format = "1999"')
    await keeper.update(path)
    assert "gandalf:0:0:0:0:0:0::20\n" in path.read_text()


async def test_nothing_is_written_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stat_file, "PERIOD", 0.0)
    source = FakeSource(make_farm(tmp_path))
    before = sorted(os.listdir(tmp_path))
    keeper = StatFile(source)
    keeper.start()
    for _ in range(20):
        await asyncio.sleep(0)
    await keeper.stop()
    assert sorted(os.listdir(tmp_path)) == before


async def test_rests_when_all_are_silent(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    source = FakeSource(farm_with(tmp_path, "stat"))
    keeper = StatFile(source)
    source.publish(gandalf=reading(age=0.1, interval=60.0))
    await keeper.update(path)
    path.unlink()
    await keeper.update(path)
    assert path.exists()  # a member is alive, so ages change
    source.publish(gandalf=reading(age=60))
    await keeper.update(path)
    assert rows(path.read_text())["gandalf"]["state"] == "silent"
    path.unlink()
    await keeper.update(path)
    assert not path.exists()
    source.drain("gandalf")
    await keeper.update(path)
    assert rows(path.read_text())["gandalf"]["state"] == "drained"


async def test_a_failing_disk_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "gone" / "stat"
    keeper = StatFile(FakeSource(farm_with(tmp_path, "gone/stat")))
    for _ in range(3):
        await keeper.update(path)
    assert keeper.failures == 3
    assert [r.levelname for r in caplog.records] == ["ERROR"]
    assert "cannot write the file: No such file or directory" in caplog.text
    path.parent.mkdir()
    await keeper.update(path)
    await keeper.update(path)
    assert [r.levelname for r in caplog.records] == ["ERROR", "INFO"]
    assert path.exists()
