"""Checks that pages have exact sizes, and that CGI programs do exactly what a valid query string specifies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lbdns_tools.lab.programs.web_content import MOST_WORK_MS, PAGES, page, write_content
from lbdns_tools.load.request_mix import RequestTarget, file_set
from tests.needs import needs

pytestmark = needs(programs=("perl",))


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("content")
    write_content(folder)
    return folder


def cgi(content: Path, name: str, query: str) -> tuple[dict[str, str], bytes, float]:
    """Run a CGI program with one query string, and return the headers, the body, and the CPU time in seconds."""
    process = subprocess.Popen(
        [content / "cgi-bin" / name],
        env={"PATH": os.defpath, "QUERY_STRING": query, "DOCUMENT_ROOT": str(content / "pages")},
        cwd=content / "cgi-bin",
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout as output:
        head, _, body = output.read().partition(b"\n\n")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
    return headers, body, used.ru_utime + used.ru_stime


@pytest.mark.parametrize("target", file_set("mixed", "http://host").targets, ids=lambda target: target.path)
def test_what_the_load_generator_asks_for(content: Path, target: RequestTarget) -> None:
    parts = urlsplit(target.path)
    if not parts.query:
        assert (content / "pages" / parts.path.lstrip("/")).stat().st_size == target.expect
        return
    headers, body, _ = cgi(content, parts.path.rpartition("/")[2], parts.query)
    assert headers == {"Content-Type": "text/html", "Content-Length": str(target.expect)}
    assert len(body) == target.expect


def test_pages(content: Path) -> None:
    assert {file.name: file.stat().st_size for file in (content / "pages").iterdir()} == dict(PAGES)
    assert PAGES["1k.html"] == 1024
    text = (content / "pages" / "file5k.html").read_text("ascii")
    assert text.startswith("<!DOCTYPE html>")
    assert text.endswith("</html>\n")


def test_everybody_may_read_it(content: Path) -> None:
    for path in (content, *content.rglob("*")):
        wanted = 0o755 if path.is_dir() or path.parent.name == "cgi-bin" else 0o644
        assert path.stat().st_mode & 0o777 == wanted, path


def test_a_page_that_is_too_small() -> None:
    with pytest.raises(ValueError, match=r"must have at least [0-9]+ bytes"):
        page(20)


BAD = {
    "file": (
        "", "size=501", "size=", "size=500 ", "500", "size=5000;touch made", "size=$(touch made)", "size=`touch made`",
        "size=500&size=5000", "size=../../etc/passwd", "size=*", "size=500|touch made", "size=500\ntouch made",
    ),
    "sleep": ("", "s=", "s=-1", "s=10", "s=inf", "s=1;touch made", "s=1d", "s=0.2 9", "s=.2", "s=$(touch made)"),
    "work": ("", "ms=", f"ms={MOST_WORK_MS + 1}", "ms=1e9", "ms=-1", "ms=1;touch made", "ms=1\n", "ms=`touch made`"),
}  # fmt: skip


@pytest.mark.parametrize(("program", "query"), [(name, query) for name, queries in BAD.items() for query in queries])
def test_what_nobody_should_ask_for(content: Path, program: str, query: str) -> None:
    headers, body, _ = cgi(content, program, query)
    assert headers["Status"] == "404 Not Found"
    assert len(body.splitlines()) == 1
    assert not list(content.rglob("made"))


@pytest.mark.parametrize("query", ["s=0", "s=0.05", "s=0.125"])
def test_sleep_takes_its_time_and_no_processor(content: Path, query: str) -> None:
    headers, body, used = cgi(content, "sleep", query)
    assert headers["Content-Length"] == str(len(body))
    assert used < 0.05


@pytest.mark.parametrize("wanted", [40, 70, 150])
def test_work_uses_the_processor(content: Path, wanted: int) -> None:
    headers, body, used = cgi(content, "work", f"ms={wanted}")
    assert headers["Content-Length"] == str(len(body))
    assert wanted / 1000 <= used < 1.2 * wanted / 1000 + 0.01
