"""The pages: status, metrics, health, the live page, and what isn't there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from lbdns import __version__
from lbdns.policies.guard_rails.guards import NO_GUARD, Guard
from lbdns_collector.collector import Collector
from lbdns_collector.web import render
from lbdns_collector.web.app import FILES, PATHS, STATIC
from lbdns_collector.web.metrics import collector_families
from tests.collector.making import IDLE, KEY, datagram, make_farm, reading
from tests.collector.web.serving import by_name, served


async def test_status(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        web.source.publish(gandalf=reading(age=0.5), frodo=reading(age=9))
        web.source.counts["web"], web.source.out["web"], web.source.queries = [1, 1, 2], {"bilbo"}, 4
        async with web.session.get(web.url("/api/v1/status")) as response:
            assert (response.status, response.content_type) == (200, "application/json")
            document = await response.json()
        assert document["server"] == {"version": __version__, "uptime_s": 12.5, "queries": 4, "workers": 1}
        members = by_name(document)
        assert {name: member["state"] for name, member in members.items()} == {
            "bilbo": "drained", "frodo": "silent", "gandalf": "usable",
        }  # fmt: skip
        gandalf = members["gandalf"]
        assert (gandalf["score"], gandalf["answers"], gandalf["share"]) == (80, 2, 0.5)
        assert gandalf["addresses"] == ["127.0.0.18"]
        assert gandalf["metrics"] == IDLE
        assert gandalf["age_s"] == pytest.approx(0.5, abs=0.4)


async def test_large_farms_are_told_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as web:
        web.source.publish(gandalf=reading(age=60, interval=3600.0))
        documents = []
        for limit in (render.LARGE, 0):
            monkeypatch.setattr(render, "LARGE", limit)
            async with web.session.get(web.url("/api/v1/status")) as response:
                documents.append(by_name(await response.json()))
            async with web.session.get(web.url("/metrics")) as response:
                assert "lbdns_member_score{" in await response.text()
        for members in documents:
            members["gandalf"].pop("age_s")
        assert documents[0] == documents[1]


LABELS = ("pool", "member", "result", "version")


async def metrics(
    tmp_path: Path, *families: Metric, guarded: Mapping[str, Sequence[Guard]] | None = None
) -> dict[str, dict[tuple[str, ...], float]]:
    """What /metrics says: sample name -> label values -> value."""
    async with served(tmp_path) as web:
        web.source.publish(gandalf=reading(age=0.5), frodo=reading(age=9, score=7))
        web.source.families = list(families)
        web.source.guarded = guarded or {}
        async with web.session.get(web.url("/metrics")) as response:
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            text = await response.text()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in LABELS if name in sample.labels)
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


async def test_metrics(tmp_path: Path) -> None:
    found = await metrics(tmp_path)
    assert found["lbdns_member_score"] == {("web", "gandalf"): 80, ("web", "frodo"): 7}
    assert found["lbdns_member_usable"] == {("web", "gandalf"): 1, ("web", "frodo"): 0, ("web", "bilbo"): 0}
    ages = found["lbdns_member_report_age_seconds"]
    assert set(ages) == {("web", "gandalf"), ("web", "frodo")}
    assert ages["web", "frodo"] == pytest.approx(9, abs=0.9)
    assert found["lbdns_reports_total"] == {("accepted",): 3, ("replay",): 1}
    assert [(labels[0], value) for labels, value in found["lbdns_build_info"].items()] == [(__version__, 1)]
    assert found["process_resident_memory_bytes"][()] > 1e6
    assert found["process_cpu_seconds_total"][()] > 0
    manual = (Path(__file__).parents[3] / "docs" / "http.md").read_text()
    assert [name for name in found if name.startswith("lbdns_") and f"`{name}`" not in manual] == []


async def test_metrics_of_guards(tmp_path: Path) -> None:
    assert "lbdns_member_quarantined" not in await metrics(tmp_path), "a collector alone hands nobody out"
    guards = (NO_GUARD, Guard(ramp=0.4), Guard("it fails", 0.0, quarantined=True))
    found = await metrics(tmp_path, guarded={"web": guards})
    assert found["lbdns_member_usable"]["web", "gandalf"] == 0
    assert found["lbdns_member_quarantined"] == {("web", "gandalf"): 1, ("web", "frodo"): 0, ("web", "bilbo"): 0}
    assert found["lbdns_member_ramp"] == {("web", "gandalf"): 1, ("web", "frodo"): 0.4, ("web", "bilbo"): 1}
    manual = (Path(__file__).parents[3] / "docs" / "http.md").read_text()
    assert [name for name in found if name.startswith("lbdns_") and f"`{name}`" not in manual] == []


async def test_metrics_of_the_source_are_there_too(tmp_path: Path) -> None:
    family = CounterMetricFamily("lbdns_ring_bearers", "How many carried it")
    family.add_metric((), 4)
    assert (await metrics(tmp_path, family))["lbdns_ring_bearers_total"] == {(): 4}


def test_metrics_of_a_collector(tmp_path: Path) -> None:
    collector = Collector(make_farm(tmp_path), (KEY,))
    collector.table.accept(datagram(at=1000.25), "", 1.0, 1000.0)
    overflows, skew = collector_families(collector)
    assert [(s.name, s.value) for s in overflows.samples] == [("lbdns_report_overflows_total", 0)]
    assert [(s.labels, s.value) for s in skew.samples] == [({"host": "gandalf"}, 0.25)]


async def test_health(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        for serving, status in ((True, 200), (False, 503)):
            web.source.serving = serving
            async with web.session.get(web.url("/healthz")) as response:
                assert response.status == status
                assert await response.text() == ("ok\n" if serving else "not serving\n")


@pytest.mark.parametrize(
    "path", ["/nothing", "/api", "/api/v1/", "/static/app.js", "/..%2fapp.py", "//", "/index.html"]
)
async def test_unknown_path(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as web, web.session.get(web.url(path)) as response:
        assert (response.status, response.content_type) == (404, "application/json")
        error = (await response.json())["error"]
        assert all(known in error for known in PATHS)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", PATHS)
async def test_read_only(tmp_path: Path, method: str, path: str) -> None:
    async with served(tmp_path) as web, web.session.request(method, web.url(path), data=b"x") as response:
        assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")
        assert "read-only" in (await response.json())["error"]


@pytest.mark.parametrize("path", PATHS)
async def test_head(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as web, web.session.head(web.url(path)) as response:
        assert response.status == 200
        assert await response.read() == b""


@pytest.mark.parametrize("path", [*PATHS[:-1], *FILES, "/nothing"])
async def test_headers_keep_strange_scripts_out(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as web, web.session.get(web.url(path)) as response:
        assert response.headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", FILES)
async def test_files(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as web, web.session.get(web.url(path)) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == FILES[path][1]
        assert await response.read() == (STATIC / FILES[path][0]).read_bytes()


def test_page_works_alone_and_as_its_policy_says() -> None:
    """No inline script or style, nothing from elsewhere, and nothing a report said is ever taken for HTML."""
    html = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", html) == []
    for source in re.findall(r'(?:src|href)="([^"]*)"', html):
        assert source in (*PATHS, *FILES), source
    for path in STATIC.iterdir():
        text = path.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "//" not in re.sub(r"(?m)(^|\s)//.*$", "", text), f"{path.name} names another place"
        assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text) == []


async def test_failure_of_the_source_is_no_page_of_code(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        web.source.counts["web"] = [1]  # one count for three members: a mistake of the program
        async with web.session.get(web.url("/api/v1/status")) as response:
            assert response.status == 500
            body = await response.text()
        assert "Traceback" not in body
        assert "error" in json.loads(body)
