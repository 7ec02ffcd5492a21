"""Checks that recorded data can be read (every tier, every second, and events), and that old data is deleted."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from lbdns.config.recording_sections import HistoryConfig
from lbdns.events.event_log import LoggedEvent
from lbdns.history import history_store
from lbdns.history.history_chunk import RAW, ChunkColumn
from lbdns.history.history_database import NoHistoryError, NoSuchSeriesError
from lbdns.history.history_reader import HistoryReader
from lbdns.history.history_recorder import HistoryRecorder
from lbdns.model.snapshot import Reading
from lbdns_shared.errors import ConfigError, LbdnsError
from tests.history.history_samples import BEGIN, fill, pool, sample

WEB = "web"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def recorded(file: Path, seconds: int, config: HistoryConfig | None = None) -> HistoryReader:
    """Record a history in which member a's load increases by 1 every second, and member b's is always 20."""
    recorder = HistoryRecorder(file, config or HistoryConfig())
    fill(recorder, (sample(s, pool(s, {"a": float(s), "b": 20.0})) for s in range(seconds)))
    return HistoryReader(file)


def test_every_second_is_read_back(file: Path) -> None:
    found = recorded(file, 125).series(WEB, "cpu_idle", [], BEGIN, BEGIN + 124, 600)
    assert (found.pool, found.metric, found.tier, found.step_s) == (WEB, "cpu_idle", "raw", 1.0)
    assert found.times == tuple(BEGIN + second for second in range(125))
    assert found.series == {"a": tuple(map(float, range(125))), "b": (20.0,) * 125}


def test_fewer_points_are_means_over_several_seconds(file: Path) -> None:
    found = recorded(file, 120).series(WEB, "cpu_idle", ["a"], BEGIN, BEGIN + 120, 20)
    assert (found.tier, found.step_s, len(found.times)) == ("raw", 6.0, 20)
    assert found.series == {"a": tuple(6 * i + 2.5 for i in range(20))}


def test_tiers_of_means(file: Path) -> None:
    reader = recorded(file, 600)
    tens = reader.series(WEB, "cpu_idle", ["a"], BEGIN, BEGIN + 600, 60)
    assert (tens.tier, tens.step_s, len(tens.times)) == ("10s", 10.0, 60)
    assert tens.series["a"] == pytest.approx([10 * i + 4.5 for i in range(60)], rel=0.001)
    minutes = reader.series(WEB, "cpu_idle", ["a"], BEGIN, BEGIN + 600, 5)
    assert (minutes.tier, minutes.step_s) == ("1min", 120.0)
    assert minutes.series["a"] == pytest.approx([120 * i + 59.5 for i in range(5)], rel=0.001)


@pytest.mark.parametrize("points", [600, 40, 6])
def test_rates_are_the_same_in_every_tier(file: Path, points: int) -> None:
    reader = recorded(file, 600)
    answers = reader.series(WEB, "answers", [], BEGIN + 1, BEGIN + 600, points).series
    assert set(answers) == {"a", "b"}
    assert set(answers["a"]) == {10.0}
    assert set(answers["b"]) == {20.0}
    types = reader.series("", "types", [], BEGIN + 1, BEGIN + 600, points).series
    assert set(types["A"]) == {30.0}
    assert set(types["AAAA"]) == {5.0}
    assert set(reader.series("", "queries", [], BEGIN + 1, BEGIN + 600, points).series["queries"]) == {35.0}


def test_counters_are_not_rounded(file: Path) -> None:
    reader = recorded(file, 60)
    assert reader.series(WEB, "requests_total", ["a"], BEGIN, BEGIN + 59, 600).series["a"][-1] == 1e9 + 5900
    assert reader.series(WEB, "httpd_cpu_seconds", ["a"], BEGIN, BEGIN + 59, 600).series["a"][-1] == 14.75
    means = reader.series(WEB, "requests_total", ["a"], BEGIN, BEGIN + 60, 6)
    assert (means.tier, means.series["a"][0]) == ("10s", 1e9 + 900)  # the last of the ten seconds


def test_a_hole_is_one_in_the_plot(file: Path) -> None:
    seconds = [*range(30), *range(60, 90)]
    fill(HistoryRecorder(file, HistoryConfig()), (sample(s) for s in seconds))
    found = HistoryReader(file).series(WEB, "cpu_idle", ["a"], BEGIN, BEGIN + 90, 600)
    assert len(found.times) == 61
    assert found.series["a"].count(None) == 1
    assert found.times[30] == BEGIN + 30
    assert found.series["a"][30] is None


def test_a_span_that_nothing_is_known_of_has_no_times(file: Path) -> None:
    found = recorded(file, 10).series(WEB, "cpu_idle", [], BEGIN - 500, BEGIN - 100, 600)
    assert found.times == ()
    assert found.series == {}


def test_further_back_than_the_fine_tier_reaches_the_coarser_one_is_read(file: Path) -> None:
    reader = recorded(file, 400, HistoryConfig(keep_raw=60.0))
    near = reader.series(WEB, "cpu_idle", ["b"], BEGIN + 350, BEGIN + 400, 600)
    far = reader.series(WEB, "cpu_idle", ["b"], BEGIN, BEGIN + 400, 600)
    assert (near.tier, far.tier) == ("raw", "10s")
    assert set(far.series["b"]) == {20.0}


def test_old_data_is_deleted_and_the_file_stops_growing(file: Path) -> None:
    config = HistoryConfig(keep_raw=60.0, keep_10s=120.0, keep_1min=300.0)
    recorder = HistoryRecorder(file, config)
    many = {f"m{i}": 0.0 for i in range(50)}
    sizes = []
    for second in range(1200):
        loads = {name: (second * 7919 + i * 104_729) % 1009 / 7 for i, name in enumerate(many)}
        recorder.add_sample(sample(second, pool(second, loads)))
        if second % 5 == 0:
            recorder.add_event(LoggedEvent(second, BEGIN + second, "state", "info", f"event {second}"))
            recorder.commit()
            sizes.append(recorder.bytes)
    recorder.finish()
    reader = HistoryReader(file)
    begins = reader.begins()
    assert BEGIN + 1200 - 60 - 20 <= begins["raw"] <= BEGIN + 1200 - 60
    assert BEGIN + 1200 - 120 - 240 <= begins["10s"] <= BEGIN + 1200 - 120
    assert BEGIN + 1200 - 300 - 1260 <= begins["1min"] <= BEGIN + 1200 - 300
    assert min(event.time for event in reader.events(0.0)) >= BEGIN + 1200 - 310
    assert max(sizes[-60:]) <= 1.2 * max(sizes[60:120])


def test_a_file_of_which_less_is_kept_gives_room_back(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_store, "_PRUNED", 20)  # rows at a time
    monkeypatch.setattr(history_store, "_VACUUMED", 4)  # pages at a time
    written = history_store.HistoryStore(file)
    for second in range(10):
        cells = [ChunkColumn("web", f"m{i}", ("a",), bytes([second, i]) * 5000) for i in range(20)]
        written.write([(RAW, int((BEGIN + second) * 1000), cells)], [], {})
    before = pages(file)
    for _ in range(50):
        written.prune({RAW.table: BEGIN + 9}, BEGIN)
    written.close()
    assert before > 100
    assert pages(file) < 0.4 * before
    assert HistoryReader(file).begins() == {"raw": BEGIN + 9}


def pages(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("PRAGMA page_count").fetchone()[0])


def test_a_tier_that_is_not_kept_is_not_written(file: Path) -> None:
    recorded(file, 100, HistoryConfig(keep_raw=0.0, keep_10s=0.0))
    assert HistoryReader(file).begins().keys() == {"1min"}
    found = HistoryReader(file).series(WEB, "cpu_idle", ["b"], BEGIN, BEGIN + 100, 600)
    assert (found.tier, set(found.series["b"])) == ("1min", {20.0})


def test_members_come_and_go(file: Path) -> None:
    recorder = HistoryRecorder(file, HistoryConfig())
    before = [sample(s, pool(s, {"a": 1.0, "b": 2.0})) for s in range(13)]
    after = [sample(s, pool(s, {"b": 2.0, "c": 3.0}, answers=(20 * s, 5 * s))) for s in range(13, 40)]
    fill(recorder, [*before, *after])
    found = HistoryReader(file).series(WEB, "cpu_idle", [], BEGIN, BEGIN + 40, 600)
    assert found.series["a"] == (1.0,) * 13 + (None,) * 27
    assert found.series["b"] == (2.0,) * 40
    assert found.series["c"] == (None,) * 13 + (3.0,) * 27
    answers = HistoryReader(file).series(WEB, "answers", ["b"], BEGIN + 1, BEGIN + 40, 600)
    assert set(answers.series["b"]) == {20.0}  # found by name, at any place in the pool


def test_a_clock_that_is_set_back_loses_nothing_else(file: Path) -> None:
    recorder = HistoryRecorder(file, HistoryConfig())
    back = [replace(sample(s), time=BEGIN + s - 20) for s in range(30, 60)]
    fill(recorder, [*(sample(s) for s in range(30)), *back])
    found = HistoryReader(file).series(WEB, "cpu_idle", ["a"], BEGIN, BEGIN + 60, 600)
    assert found.times == tuple(BEGIN + s for s in range(40))
    assert set(found.series["a"]) == {50.0}


def test_data_appears_with_the_commit(file: Path) -> None:
    recorder = HistoryRecorder(file, HistoryConfig())
    for second in range(7):
        recorder.add_sample(sample(second))
        if second in (2, 4):
            recorder.commit()
    reader = HistoryReader(file)
    assert len(reader.series(WEB, "cpu_idle", [], BEGIN, BEGIN + 60, 600).times) == 5
    recorder.finish()
    assert len(reader.series(WEB, "cpu_idle", [], BEGIN, BEGIN + 60, 600).times) == 7


def test_two_may_write_and_one_read(file: Path) -> None:
    one, two = HistoryRecorder(file, HistoryConfig()), HistoryRecorder(file, HistoryConfig())
    two._salt = one._salt + 1  # otherwise 1 run in 1000 would test something else
    for second in range(40):
        for recorder in [one] * (second < 25) + [two] * (second >= 15):
            recorder.add_sample(replace(sample(second), time=BEGIN + second + 0.01 * (recorder is two)))
            recorder.commit()
        if second == 24:
            one.finish()
    two.finish()
    found = HistoryReader(file).series(WEB, "cpu_idle", ["a"], BEGIN, BEGIN + 40, 8)
    assert (found.step_s, len(found.times)) == (5.0, 8)
    assert set(found.series["a"]) == {50.0}
    tens = HistoryReader(file).series(WEB, "cpu_idle", ["a"], BEGIN, BEGIN + 40, 4)
    assert (tens.tier, set(tens.series["a"])) == ("10s", {50.0})


def test_events(file: Path) -> None:
    recorder = HistoryRecorder(file, HistoryConfig())
    told = [
        LoggedEvent(1, BEGIN, "server", "info", "started"),
        LoggedEvent(2, BEGIN + 1, "state", "warning", "gandalf: silent", "web", "gandalf"),
        LoggedEvent(3, BEGIN + 2, "state", "info", "gandalf: usable", "web", "gandalf"),
    ]
    for event in told:
        recorder.add_event(event)
    recorder.finish()
    reader = HistoryReader(file)
    assert reader.events() == told
    assert reader.events(limit=2) == told[1:]
    assert reader.events(since=BEGIN + 1) == told[2:]
    assert reader.events(until=BEGIN + 1) == told[:2]
    assert reader.events(kind="state") == told[1:]
    assert reader.events(limit=0) == []
    with pytest.raises(ConfigError, match=r"'stat' is not a kind of event. Perhaps you meant 'state'"):
        reader.events(kind="stat")


def test_every_second_of_a_pool(file: Path) -> None:
    recorder = HistoryRecorder(file, HistoryConfig())
    alarm = Reading(4.0, 1.0, 7, {"cpu_idle": 3.0}, alarm="disk")
    samples = [sample(s) for s in range(12)]
    samples[5] = sample(5, pool(5, {"a": 50.0, "b": 20.0}, readings=(None, alarm), states=("unknown", "alarm")))
    fill(recorder, samples)
    moments = list(HistoryReader(file).raw(WEB, BEGIN + 2, BEGIN + 10))
    assert [moment.time - BEGIN for moment in moments] == list(range(2, 11))
    assert moments[3].alarms == {"b": "disk"}
    assert moments[3].columns["cpu_idle"][1] == 3.0
    assert math.isnan(moments[3].columns["cpu_idle"][0])
    assert all(not moment.alarms for moment in moments if moment is not moments[3])
    assert moments[0].members == ("a", "b")
    assert list(moments[0].columns["answers"]) == [10.0, 20.0]


def test_the_contents_are_listed(file: Path) -> None:
    reader = recorded(file, 20)
    assert [(info.name, info.zone, info.policies) for info in reader.pools()] == [(WEB, "hobbit", {"best": "best"})]
    assert {"cpu_idle", "requests_total", "score", "answers", "usable", "age_s"} <= set(reader.metrics(WEB))
    assert reader.metrics("") == ["queries", "rcodes", "types"]


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        (("webb", "score", []), "no data is recorded for pool 'webb'. Perhaps you meant 'web'?"),
        ((WEB, "cpu_idel", []), "no data is recorded for metric 'cpu_idel' of pool web. Perhaps you meant 'cpu_idle'?"),
        ((WEB, "time", []), "no data is recorded for metric 'time'"),
        ((WEB, "score", ["aa"]), "no data is recorded for member 'aa'"),
        (("", "score", []), "no data is recorded for metric 'score' of the server"),
    ],
)
def test_unknown_names_are_errors(file: Path, where: tuple[str, str, list[str]], complaint: str) -> None:
    reader = recorded(file, 10)
    with pytest.raises(NoSuchSeriesError) as error:
        reader.series(*where, BEGIN, BEGIN + 10, 600)
    assert complaint in str(error.value)
    assert error.value.exit_status == 2


@pytest.mark.parametrize(
    "span", [(BEGIN, BEGIN, 5), (BEGIN + 1, BEGIN, 5), (BEGIN, math.inf, 5), (BEGIN, BEGIN + 1, 0)]
)
def test_invalid_spans(file: Path, span: tuple[float, float, int]) -> None:
    with pytest.raises(ConfigError, match="'from' must be earlier than 'to'"):
        recorded(file, 5).series(WEB, "score", [], *span)


def test_no_file(file: Path) -> None:
    with pytest.raises(NoHistoryError, match="there is no history"):
        HistoryReader(file).events()


def test_an_empty_file(file: Path) -> None:
    file.touch()
    with pytest.raises(NoHistoryError, match="nothing is recorded yet"):
        HistoryReader(file).pools()


def test_another_database(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE cats (name)")
    before = file.read_bytes()
    with pytest.raises(LbdnsError, match="not an lbdns history"):
        HistoryReader(file).events()
    recorder = HistoryRecorder(file, HistoryConfig())
    recorder.add_sample(sample(0))
    with pytest.raises(LbdnsError, match="not an lbdns history"):
        recorder.commit()
    assert file.read_bytes() == before


def test_a_later_version(file: Path) -> None:
    recorded(file, 3)
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA user_version = 2")
    with pytest.raises(LbdnsError, match="version 2, but this lbdns supports version 1"):
        HistoryReader(file).events()


def test_no_database(file: Path) -> None:
    file.write_text("no database " * 1000)
    with pytest.raises(LbdnsError, match="cannot read the history"):
        HistoryReader(file).events()


def test_a_damaged_column_is_a_hole(file: Path) -> None:
    recorded(file, 40)
    with closing(sqlite3.connect(file)) as other, other:
        ids = [row[0] for row in other.execute("SELECT id FROM raw WHERE id >> 20 = ?", (int((BEGIN + 10) * 1000),))]
        other.executemany("UPDATE raw SET data = substr(data, 1, 3) WHERE id = ?", [(i,) for i in ids[2:]])
    found = HistoryReader(file).series(WEB, "cpu_idle", ["b"], BEGIN, BEGIN + 40, 600)
    assert found.series["b"] == (20.0,) * 10 + (None,) * 10 + (20.0,) * 20


def test_a_file_that_was_deleted_is_begun_anew(file: Path) -> None:
    recorder = HistoryRecorder(file, HistoryConfig())
    for second in range(20):
        recorder.add_sample(sample(second))
        if second == 9:
            recorder.commit()
            for path in file.parent.iterdir():
                path.unlink()
    recorder.finish()
    assert HistoryReader(file).pools()[0].zone == "hobbit"
    assert HistoryReader(file).series(WEB, "score", ["a"], BEGIN, BEGIN + 20, 600).times[-1] == BEGIN + 19


def stored(file: Path, table: str) -> dict[int, list[bytes]]:
    """Return the packed columns of a tier by the begin of their chunk, in seconds after BEGIN."""
    found: dict[int, list[bytes]] = {}
    with closing(sqlite3.connect(file)) as connection:
        for key, data in connection.execute(f"SELECT id, data FROM {table} ORDER BY id"):
            found.setdefault(int((key >> 20) // 1000 - BEGIN), []).append(data)
    return found


@pytest.mark.parametrize("every", [1, 5, 7, 130])
def test_the_parts_of_a_chunk_become_the_chunk_that_one_commit_would_have_written(tmp_path: Path, every: int) -> None:
    often, once = tmp_path / "often.db", tmp_path / "once.db"
    samples = [sample(s, pool(s, {"a": s / 7, "b": 1e6 + s / 3})) for s in range(200)]
    for s in range(200, 300):  # a new metric appears, and a counter of whole numbers begins to have fractions
        reading = Reading(s - 0.25, 1.0, s % 9, {"httpd_cpu_seconds": s / 3, "requests_total": s / 7, "new": s * s / 3})
        samples.append(sample(s, pool(s, {"a": 0.0, "b": 0.0}, readings=(None, reading))))
    fill(HistoryRecorder(often, HistoryConfig()), samples, every)
    fill(HistoryRecorder(once, HistoryConfig()), samples, 1000)
    assert len(stored(often, "mean_10s")) == len(stored(once, "mean_10s")) < 10
    for table in ("raw", "mean_10s", "mean_1min"):
        assert sorted(map(sorted, stored(often, table).values())) == sorted(map(sorted, stored(once, table).values()))


def test_a_damaged_part_is_a_hole_in_the_chunk(file: Path) -> None:
    recorder = HistoryRecorder(file, HistoryConfig())
    for second in range(100):
        recorder.add_sample(sample(second))
        recorder.commit()
        if second == 50:
            with closing(sqlite3.connect(file)) as other, other:
                ids = [row[0] for row in other.execute("SELECT id FROM mean_10s ORDER BY id")]
                assert len({i >> 20 for i in ids}) == 5
                columns = [i for i in ids if i >> 20 == sorted({i >> 20 for i in ids})[2]][2:]
                other.executemany("UPDATE mean_10s SET data = substr(data, 1, 3) WHERE id = ?", [(i,) for i in columns])
    recorder.finish()
    (chunk,) = {key for key in stored(file, "mean_10s") if key < 100}
    assert chunk == 0
    found = HistoryReader(file).series(WEB, "cpu_idle", ["b"], BEGIN, BEGIN + 100, 10)
    assert (found.tier, found.series["b"]) == ("10s", (20.0, 20.0, None, *[20.0] * 7))


def test_the_moments_of_coarse_tiers_stay_in_memory_only_until_the_next_commit(file: Path) -> None:
    members = {f"m{i}": float(i) for i in range(100)}
    recorder = HistoryRecorder(file, HistoryConfig())
    for second in range(0, 3000, 10):
        recorder.add_sample(sample(second, pool(second, members)))
        recorder.commit()
        assert [len(recorder._chunks[name].moments) for name in ("10s", "1min")] == [0, 0]


def test_two_hundred_members_are_read_as_they_were_written(file: Path) -> None:
    many = {f"m{i}": float(i) for i in range(200)}
    fill(HistoryRecorder(file, HistoryConfig()), (sample(s, pool(s, many)) for s in range(300)), every=50)
    found = HistoryReader(file).series(WEB, "cpu_idle", [], BEGIN, BEGIN + 300, 600)
    assert len(found.series) == 200
    assert found.series["m7"] == (7.0,) * 300
