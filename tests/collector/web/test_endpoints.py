"""Tests of the JSON documents other than the status document: log, explanation and history."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from lbdns.events.event_log import LoggedEvent
from lbdns.history.history_plots import HistoryPlots, MetricPlot, PlotRequest
from lbdns.history.history_reader import HistorySeries
from lbdns_collector.web import endpoints
from lbdns_shared.errors import ConfigError, LbdnsError
from tests.collector.collector_fixtures import KEY, datagram
from tests.collector.report_tables import accept, make
from tests.collector.web.served_app import Served, served

if TYPE_CHECKING:
    from lbdns.history.live_history import LiveHistory


class FakeHistory:
    """A history whose contents are set by the test."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.kept: list[LoggedEvent] = []
        self.failure: LbdnsError | None = None

    async def series(
        self, pool: str, metric: str, members: Sequence[str], start: float, end: float, points: int
    ) -> HistorySeries:
        self.asked.append((pool, metric, list(members), start, end, points))
        if self.failure:
            raise self.failure
        return HistorySeries(pool, metric, "raw", 1.0, (10.0, 11.0), {"gandalf": (1.5, None), "frodo": (2.0, 3.0)})

    async def plots(self, wanted: PlotRequest) -> HistoryPlots:
        self.asked.append((wanted,))
        if self.failure:
            raise self.failure
        plot = MetricPlot({"frodo": (2.0, None)}, {"sum": (9.0, 8.0)})
        return HistoryPlots("web", "10s", 10.0, (10.0, 20.0), {"answers": plot}, {"types": {"A": (1.0, 2.0)}})

    async def events(self, since: float = 0.0, limit: int = 1000, kind: str = "") -> list[LoggedEvent]:
        if self.failure:
            raise self.failure
        return [event for event in self.kept if event.time > since and kind in ("", event.kind)][-limit:]


def recording(web: Served) -> FakeHistory:
    history = FakeHistory()
    web.source.history = cast("LiveHistory", history)
    return history


async def get(web: Served, path: str, status: int = 200) -> Any:
    async with web.session.get(web.url(path)) as response:
        assert (response.status, response.content_type) == (status, "application/json"), await response.text()
        return await response.json()


async def test_events_so_far(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        assert await get(web, "/api/v1/log") == {"events": []}
        for number in range(5):
            web.source.events.record("state", f"text {number}", pool="web", member="gandalf")
        web.source.events.record("reload", "in force")
        events = web.source.events.newest()
        assert await get(web, "/api/v1/log") == {"events": [event.document() for event in events]}
        assert await get(web, "/api/v1/log?kind=reload") == {"events": [events[-1].document()]}
        assert await get(web, "/api/v1/log?limit=2") == {"events": [event.document() for event in events[-2:]]}
        since = repr(events[3].time)
        told = (await get(web, f"/api/v1/log?since={since}"))["events"]
        assert told == [event.document() for event in events if event.time > events[3].time]


async def test_events_of_the_history_come_before_those_of_memory(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        history = recording(web)
        web.source.events.record("state", "both know")
        web.source.events.record("state", "not written yet")
        fresh = list(web.source.events.newest())
        old = LoggedEvent(900, 5.0, "server", "info", "before the restart")
        history.kept = [old, fresh[0]]
        assert [event["text"] for event in (await get(web, "/api/v1/log"))["events"]] == [
            "before the restart", "both know", "not written yet",
        ]  # fmt: skip
        assert [event["text"] for event in (await get(web, "/api/v1/log?limit=2"))["events"]] == [
            "both know", "not written yet",
        ]  # fmt: skip
        history.failure = LbdnsError("nothing is recorded yet")
        assert len((await get(web, "/api/v1/log"))["events"]) == 2


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "since=nan", "since=", "kind=nothing"])
async def test_bad_questions_about_events(tmp_path: Path, query: str) -> None:
    async with served(tmp_path) as web:
        error = (await get(web, f"/api/v1/log?{query}", 400))["error"]
        assert error.startswith(f"{query.partition('=')[0]}: ")


async def test_explanation(tmp_path: Path) -> None:
    told = {"name": "best.hobbit", "why": "the highest score", "members": [{"name": "gandalf"}, {"name": "frodo"}]}
    async with served(tmp_path) as web:
        web.source.explanations["best.hobbit"] = told
        assert await get(web, "/api/v1/explain?name=best.hobbit") == told
        assert "name: no pool serves the name" in (await get(web, "/api/v1/explain?name=x", 404))["error"]
        for query in ("", "?name=", f"?name={'x' * 301}"):
            assert "name=best.hobbit" in (await get(web, f"/api/v1/explain{query}", 400))["error"]


async def test_history(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        history = recording(web)
        path = "/api/v1/history?pool=web&metric=score&from=10&to=12&points=7&member=frodo&member=gandalf&member=frodo"
        assert await get(web, path) == {
            "pool": "web", "metric": "score", "tier": "raw", "step_s": 1.0, "times": [10.0, 11.0],
            "series": {"gandalf": [1.5, None], "frodo": [2.0, 3.0]},
        }  # fmt: skip
        await get(web, "/api/v1/history?metric=types&to=5000")
        assert history.asked == [
            ("web", "score", ["frodo", "gandalf"], 10.0, 12.0, 7),
            ("", "types", [], 1400.0, 5000.0, 600),
        ]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("pool=web", "metric: the parameter is missing"),
        ("pool=wep&metric=score", "pool: 'wep' does not exist. Perhaps you meant 'web'?"),
        ("pool=web&metric=score&member=gandal", "member: pool web has no member 'gandal'. Perhaps you meant"),
        ("pool=web&metric=score&from=5&to=5", "'from' must be earlier than 'to'"),
        ("pool=web&metric=score&from=x", "from: 'x' is not a number"),
        ("pool=web&metric=score&points=0", "points: '0' is not a number from 1 to 5000"),
        ("pool=web&metric=score&to=inf", "to: 'inf' is not a number"),
        ("pool=web&metric=score&from=-1e308", "from: '-1e308' is not a number from 0 to 1e+11"),
        ("pool=web&metric=score&from=1e300&to=1e301", "to: '1e301' is not a number from 0 to 1e+11"),
    ],
)
async def test_bad_questions_about_history(tmp_path: Path, query: str, what: str) -> None:
    async with served(tmp_path) as web:
        recording(web)
        assert (await get(web, f"/api/v1/history?{query}", 400))["error"].startswith(what)


async def test_a_series_has_a_limited_number_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "MAX_VALUES", 1000)
    async with served(tmp_path) as web:
        history = recording(web)
        for query, points in (("", 333), ("&member=frodo", 1000), ("&member=frodo&member=bilbo", 500)):
            await get(web, f"/api/v1/history?pool=web&metric=score&points=5000{query}")
            assert history.asked[-1][-1] == points


async def test_errors_of_the_history(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        for path in ("/api/v1/history?metric=types", "/api/v1/plots?server=types"):
            assert "[history] on" in (await get(web, path, 404))["error"]
        history = recording(web)
        for failure, status in ((ConfigError("no such metric"), 400), (LbdnsError("nothing is recorded yet"), 404)):
            history.failure = failure
            assert (await get(web, "/api/v1/history?metric=types", status))["error"] == str(failure)


async def test_plots(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        history = recording(web)
        query = "pool=web&metric=answers&server=types&member=frodo&from=10&to=3610&step=10"
        assert await get(web, f"/api/v1/plots?{query}") == {
            "pool": "web", "tier": "10s", "step_s": 10.0, "times": [10.0, 20.0],
            "metrics": {"answers": {"series": {"frodo": [2.0, None]}, "others": {"sum": [9.0, 8.0]}}},
            "server": {"types": {"A": [1.0, 2.0]}},
        }  # fmt: skip
        await get(web, "/api/v1/plots?server=rcodes&from=0&to=100000&step=1")
        assert history.asked == [
            (PlotRequest("web", ["answers"], ["types"], ["frodo"], 10.0, 3610.0, 10.0),),
            (PlotRequest("", [], ["rcodes"], [], 0.0, 100_000.0, 20.0),),  # at most 5,000 points
        ]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("pool=web", "the parameters are incomplete"),
        ("metric=score", "the parameters are incomplete"),
        ("pool=wep&metric=score", "pool: 'wep' does not exist. Perhaps you meant 'web'?"),
        ("pool=web&metric=score&member=gandal", "member: pool web has no member 'gandal'. Perhaps you meant"),
        ("server=typs", "server: 'typs' is not a metric of the server. Perhaps you meant 'types'?"),
        ("server=types&step=0", "step: '0' is not a number from 0.1"),
        ("server=types&from=5&to=5", "'from' must be earlier than 'to'"),
        ("pool=web" + "".join(f"&metric=m{n}" for n in range(13)), "metric: at most 12 values are allowed, not 13"),
    ],
)
async def test_bad_questions_about_plots(tmp_path: Path, query: str, what: str) -> None:
    async with served(tmp_path) as web:
        recording(web)
        assert (await get(web, f"/api/v1/plots?{query}", 400))["error"].startswith(what)


async def test_an_agent_finds_out_why_its_reports_fail(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        error = await get(web, "/api/v1/reports?host=frodo", 404)
        assert "follows another collector" in error["error"]
        web.source.report_table = table = make(KEY)
        accept(table, datagram("gandalf", boot=7), "192.0.2.1", wall=time.time(), now=1.0)
        accept(table, datagram("typo"), "127.0.0.1", wall=time.time())
        document = await get(web, "/api/v1/reports?host=frodo")
        assert (document["known"], document["accepted_age_s"]) == (True, None)
        (rejected,) = document["rejected"]
        assert (rejected["source"], rejected["host"], rejected["reason"]) == ("127.0.0.1", "typo", "unknown_host")
        for query in ("", "?host=", "?host=%00", f"?host={'a' * 300}", "?host=A%20B"):
            assert "host: the parameter" in (await get(web, f"/api/v1/reports{query}", 400))["error"]
