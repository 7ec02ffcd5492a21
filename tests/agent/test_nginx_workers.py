"""nginx's status page as metrics, from a real nginx."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.webserver.nginx_workers import NginxWorkers
from lbdns_agent.webserver.status_page import parse_page_url
from tests.agent.waiting import run_to_end, until
from tests.agent.web import answer, web_server
from tests.agent.web_programs import get, nginx, open_request
from tests.needs import needs


def workers(url: str, number: float | None = None) -> NginxWorkers:
    return NginxWorkers(parse_page_url(url, ""), number)


@needs(programs=("nginx",))
def test_requests_are_counted_and_requests_in_progress_are_busy(tmp_path: Path) -> None:
    with nginx(tmp_path) as port:
        limited = workers(f"http://127.0.0.1:{port}/nginx_status", 10.0)
        first = run_to_end(limited.read())
        assert (first.busy, first.idle) == (1.0, 10.0), "the request for the page keeps one busy, as in Apache"
        assert first.total is not None
        for _ in range(20):
            get(port)
        second = run_to_end(limited.read())
        assert second.total == first.total + 21, "with the request for the page, as in Apache"
        with open_request(port, "/slow"), open_request(port, "/slow"):
            until(lambda: run_to_end(limited.read()).busy == 3.0)
            assert run_to_end(limited.read()).idle == 8.0
            unlimited = run_to_end(workers(f"http://127.0.0.1:{port}/nginx_status").read())
            assert (unlimited.busy, unlimited.idle, set(unlimited.own)) == (3.0, None, {"nginx_waiting"})


@needs(programs=("nginx",))
@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("forbidden", r"HTTP status 403; allow this host to read the page \('allow 127.0.0.1;'\)"),
        ("absent/", "HTTP status 204"),
    ],
)
def test_pages_that_nginx_refuses(tmp_path: Path, path: str, error: str) -> None:
    with nginx(tmp_path) as port, pytest.raises(MissingValueError, match=error):
        run_to_end(workers(f"http://127.0.0.1:{port}/{path}").read())


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (answer(b"<html>"), "not a page of nginx's stub_status; add 'location = /nginx_status { stub_status;"),
        (answer(b"", "404 Not Found"), "HTTP status 404; add 'location = /nginx_status { stub_status;"),
    ],
)
def test_what_is_missing_is_told(page: bytes, error: str) -> None:
    with (
        web_server(lambda connection, _: connection.sendall(page)) as url,
        pytest.raises(MissingValueError, match=error),
    ):
        run_to_end(workers(url).read())
