"""The HTTP application: status, metrics, health, the live page, and unknown paths."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lbdns import __version__
from lbdns_collector.web.app import FILES, PATHS, STATIC
from tests.collector.collector_fixtures import IDLE, reading
from tests.collector.web.served_app import by_name, served


async def test_status(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        web.source.publish(gandalf=reading(age=0.5, interval=60.0), frodo=reading(age=9))
        web.source.counts["web"], web.source.queries = [1, 1, 2], 4
        web.source.drain("bilbo")
        async with web.session.get(web.url("/api/v1/status")) as response:
            assert (response.status, response.content_type) == (200, "application/json")
            document = await response.json()
        told = {key: document["server"][key] for key in ("version", "uptime_s", "queries", "workers")}
        assert told == {"version": __version__, "uptime_s": 12.5, "queries": 4, "workers": 1}
        assert document["server"]["plane"] == "python"
        assert document["server"]["plane_reason"] == "the native extension is not installed"
        members = by_name(document)
        assert {name: member["state"] for name, member in members.items()} == {
            "bilbo": "drained", "frodo": "silent", "gandalf": "usable",
        }  # fmt: skip
        gandalf = members["gandalf"]
        assert (gandalf["score"], gandalf["answers"], gandalf["share"]) == (80, 2, 0.5)
        assert gandalf["addresses"] == ["127.0.0.18"]
        assert gandalf["metrics"] == IDLE
        assert 0.4 < gandalf["age_s"] < 60


async def test_health(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        for fault, status in (("", 200), ("worker 1 has not replied for 2 s", 503)):
            web.source.fault = fault
            async with web.session.get(web.url("/healthz")) as response:
                assert (response.status, await response.text()) == (status, f"{fault or 'ok'}\n")
            async with web.session.get(web.url("/livez")) as response:
                assert (response.status, await response.text()) == (200, "ok\n"), "whatever the fault"


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


#: Paths that need arguments, a history or a scaler; the others are plain
NEEDING_ARGUMENTS = ("/api/v1/explain", "/api/v1/history", "/api/v1/plots", "/api/v1/reports", "/api/v1/scaler")
PLAIN = [path for path in PATHS if path not in NEEDING_ARGUMENTS]


@pytest.mark.parametrize("path", PLAIN)
async def test_head(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as web, web.session.head(web.url(path)) as response:
        assert response.status == 200
        assert await response.read() == b""


@pytest.mark.parametrize("path", [*PATHS, "/icon.svg", "/nothing"])
async def test_headers_keep_strange_scripts_and_frames_out(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as web, web.session.get(web.url(path)) as response:
        policy = response.headers["Content-Security-Policy"].split("; ")
        assert {"default-src 'self'", "frame-ancestors 'none'", "form-action 'none'"} <= set(policy)
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_files(tmp_path: Path) -> None:
    """Every file below static/ is served unchanged."""
    files = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    assert {"index.html" if path == "/" else path[1:] for path in FILES} == files
    async with served(tmp_path) as web:
        for path, (body, content_type) in FILES.items():
            async with web.session.get(web.url(path)) as response:
                assert (response.status, response.headers["Content-Type"]) == (200, content_type), path
                assert await response.read() == body == (STATIC / (path[1:] or "index.html")).read_bytes()


def test_page_works_alone_and_as_its_policy_says() -> None:
    """The page has no inline scripts or styles, loads nothing from other hosts, and does not interpret text as HTML."""
    html = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", html) == []
    for source in re.findall(r'(?:src|href)="([^"]*)"', html):
        assert source.startswith("#") or source in (*PATHS, *FILES), source
    for path in (STATIC / (path[1:] or "index.html") for path in FILES if "/vendor/" not in path):
        text = path.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "//" not in re.sub(r"(?m)(^|\s)//.*$", "", text), f"{path.name} names another place"
        assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text) == []


async def test_a_failure_of_the_source_shows_no_traceback(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        web.source.counts["web"] = [1]  # one count for three members: a defect in the program
        async with web.session.get(web.url("/api/v1/status")) as response:
            assert response.status == 500
            body = await response.text()
        assert "Traceback" not in body
        assert "error" in json.loads(body)
