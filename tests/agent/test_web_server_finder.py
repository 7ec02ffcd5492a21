"""Which web server the agent measures if nobody names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.non_blocking_sensors import ReadingSteps
from lbdns_agent.webserver.nginx_workers import NginxWorkers
from lbdns_agent.webserver.status_page import parse_page_url
from lbdns_agent.webserver.web_server_finder import (
    NGINX_URLS,
    PATIENCE,
    SEARCH_INTERVAL,
    FoundServer,
    WebServerFinder,
    running_programs,
    usual_places,
)
from lbdns_agent.webserver.worker_status import WorkerStatus
from tests.agent.waiting import run_to_end
from tests.agent.web_programs import nginx
from tests.needs import needs


class Page:
    """A page that can be read while ``works`` is true."""

    def __init__(self, program: str, works: bool) -> None:
        self.works, self.reads = works, 0
        self.place = FoundServer(program, f"page of {program}", self)

    def read(self) -> ReadingSteps[WorkerStatus]:
        self.reads += 1
        if not self.works:
            raise MissingValueError(f"no page of {self.place.program}")
        return WorkerStatus(1.0, 1.0, 1.0)
        yield  # a generator, like the real readers


class Host:
    """A host with an Apache page, an nginx page, running programs and a clock."""

    def __init__(self, apache: bool, nginx: bool, *programs: str) -> None:
        self.apache, self.nginx = Page("Apache", apache), Page("nginx", nginx)
        self.programs = list(programs)
        self.now = 100.0
        self.finder = WebServerFinder(
            self.apache.place, lambda: self.programs, lambda: [self.nginx.place], lambda: self.now
        )

    def read(self) -> str:
        """Return the web server that was found, or the error of the reading."""
        try:
            run_to_end(self.finder.read())
        except MissingValueError as error:
            return str(error)
        return self.finder.description()


@pytest.mark.parametrize(
    ("apache", "nginx", "programs", "expected"),
    [
        (True, False, ["Apache"], "Apache, page of Apache"),
        (True, False, [], "Apache, page of Apache"),  # for example, in another container
        (True, True, ["Apache", "nginx"], "Apache, page of Apache"),
        (False, True, ["Apache", "nginx"], "nginx, page of nginx"),
        (True, True, ["nginx"], "nginx, page of nginx"),
        (True, True, ["nginx", "HAProxy"], "nginx, page of nginx"),
        (False, True, [], "no page of Apache"),
        (False, False, ["Apache"], "no page of Apache"),
        (False, False, ["nginx"], "nginx is running, but has no stub_status page at http://127.0.0.1/nginx_status: add "
         "'location = /nginx_status { stub_status;"),
        (True, True, ["HAProxy"], "write 'haproxy = /run/haproxy/admin.sock'"),
        (True, True, ["Caddy"], "add 'metrics' to 'servers' in the global options of its Caddyfile"),
        (True, True, ["lighttpd"], "lighttpd is running: define requests_total"),
        (False, False, ["nginx", "Caddy"], "; Caddy is running"),
    ],
)  # fmt: skip
def test_what_is_found(apache: bool, nginx: bool, programs: list[str], expected: str) -> None:
    assert expected in Host(apache, nginx, *programs).read()


def test_a_server_that_was_found_is_read_without_a_search() -> None:
    host = Host(False, True, "nginx")
    host.read()
    host.programs.clear()
    host.now += 10 * SEARCH_INTERVAL
    assert host.read() == "nginx, page of nginx"
    assert (host.nginx.reads, host.apache.reads) == (2, 0)


def test_the_search_is_repeated_every_half_minute() -> None:
    host = Host(False, False, "nginx")
    for _ in range(5):
        assert "nginx is running" in host.read()
    assert host.nginx.reads == 1
    host.nginx.works = True
    host.now += SEARCH_INTERVAL
    assert host.read() == "nginx, page of nginx"


def test_apaches_page_is_tried_at_every_reading_as_long_as_no_server_is_known() -> None:
    host = Host(False, False)
    assert host.read() == "no page of Apache"
    host.apache.works = True
    run_to_end(host.finder.read())


def test_a_server_that_stays_away_is_searched_again() -> None:
    host = Host(True, True, "nginx")
    host.read()
    host.nginx.works = False
    host.programs[:] = ["Apache"]
    host.now += SEARCH_INTERVAL
    for _ in range(PATIENCE):
        assert host.read() == "no page of nginx"
    assert host.read() == "Apache, page of Apache"


@needs(programs=("nginx",))
def test_a_real_nginx_is_found(tmp_path: Path) -> None:
    with nginx(tmp_path) as port:
        url = f"http://127.0.0.1:{port}/nginx_status"
        place = FoundServer("nginx", url, NginxWorkers(parse_page_url(url, "")))
        finder = WebServerFinder(Page("Apache", False).place, places=lambda: [place])
        assert run_to_end(finder.read()).busy == 1.0
        assert finder.description() == f"nginx, {url}"


def test_the_programs_that_run(tmp_path: Path) -> None:
    for pid, name in {"1": "systemd", "20": "nginx", "21": "nginx", "30": "apache2", "self": "caddy"}.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{name}\n")
    (tmp_path / "40").mkdir()  # a process that has just ended
    assert running_programs(str(tmp_path)) == ["Apache", "nginx"]
    assert running_programs(str(tmp_path / "absent")) == []


def test_the_usual_places() -> None:
    assert [place.place for place in usual_places()] == list(NGINX_URLS)
