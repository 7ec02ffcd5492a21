"""HAProxy's statistics as metrics, from tables and from a real HAProxy."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.missing_values import MissingValueError
from lbdns_agent.webserver.haproxy_workers import HaproxyWorkers, haproxy_status
from lbdns_agent.webserver.status_page import parse_page_url
from lbdns_agent.webserver.worker_status import WorkerStatus
from lbdns_tools.free_ports import free_port
from tests.agent.waiting import run_to_end, until
from tests.agent.web import ForkingServer, answer, web_server
from tests.agent.web_programs import get, haproxy, open_request
from tests.needs import needs


def row(name: str, kind: str, **columns: object) -> dict[str, str]:
    values = {"scur": "", "slim": "", "stot": "", "qcur": "", "req_tot": "", "mode": "http", "status": "UP"}
    return {**values, "pxname": name, "type": kind, **{key: str(value) for key, value in columns.items()}}


FRONT, BACK, SERVER, LISTENER = "0", "1", "2", "3"
WEB = [row("www", FRONT, scur=9, slim=50, stot=40, req_tot=100), row("www", LISTENER, scur=9)]
BACK_END = [
    row("web", SERVER, scur=2, slim=8, stot=50),
    row("web", SERVER, scur=1, slim=8, stot=48, status="no check"),
    row("web", SERVER, scur=0, slim=8, stot=0, status="DOWN"),
    row("web", BACK, scur=5, slim=5, stot=98, qcur=2),
]
MAIL = [row("mail", FRONT, scur=1, stot=7, req_tot=0, mode="tcp"), row("mail", BACK, scur=1, stot=7, mode="tcp")]


@pytest.mark.parametrize(
    ("rows", "proxies", "workers", "own", "expected"),
    [
        (WEB + BACK_END, [], None, 0, WorkerStatus(100.0, 6.0, 13.0, {"haproxy_queue": 2.0})),
        (WEB + BACK_END, [], 20.0, 3, WorkerStatus(103.0, 6.0, 15.0, {"haproxy_queue": 2.0})),
        (WEB + BACK_END, [], 2.0, 0, WorkerStatus(100.0, 6.0, 0.0, {"haproxy_queue": 2.0})),
        (WEB + BACK_END + MAIL, [], None, 0, WorkerStatus(107.0, 7.0, 13.0, {"haproxy_queue": 2.0})),
        (WEB + BACK_END + MAIL, ["mail"], None, 0, WorkerStatus(7.0, 2.0, None, {"haproxy_queue": 0.0})),
        (WEB, [], None, 0, WorkerStatus(100.0, 1.0, None, {"haproxy_queue": 0.0})),
        ([*BACK_END[:3], row("web", BACK, scur=5, req_tot=98)], [], None, 0,
         WorkerStatus(98.0, 6.0, 13.0, {"haproxy_queue": 0.0})),
        ([*WEB, *BACK_END, row("web", SERVER, scur=1)], [], None, 0,
         WorkerStatus(100.0, 6.0, None, {"haproxy_queue": 2.0})),
    ],
)  # fmt: skip
def test_status(
    rows: list[dict[str, str]], proxies: list[str], workers: float | None, own: float, expected: WorkerStatus
) -> None:
    assert haproxy_status(rows, frozenset(proxies), workers, own) == expected


@pytest.mark.parametrize(
    ("rows", "proxies", "error"),
    [
        (WEB, ["www", "mail"], "HAProxy has no proxy mail"),
        ([], [], "HAProxy has no front end and no back end"),
        ([{"pxname": "www", "type": FRONT}], [], "the table of statistics has no column 'req_tot'"),
        ([row("www", FRONT, req_tot="-1")], [], "the column 'req_tot' must contain numbers, not '-1'"),
    ],
)
def test_tables_without_a_status(rows: list[dict[str, str]], proxies: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        haproxy_status(rows, frozenset(proxies), None, 0.0)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(sorted(row("", ""))), st.sampled_from(["", "0", "1", "2", "UP", "9" * 30]))
    ),
    st.none() | st.floats(1, 100),
)
def test_any_table_gives_finite_numbers_or_a_value_error(rows: list[dict[str, str]], workers: float | None) -> None:
    try:
        status = haproxy_status(rows, frozenset(), workers, 0.0)
    except ValueError:
        return
    assert status.busy >= 1.0
    assert status.idle is None or status.idle >= 0.0


def one_answer(connection: socket.socket, request: bytes) -> None:
    """Answer one request, and close the connection."""
    connection.sendall(answer(b"x"))
    connection.close()


def total_of(workers: HaproxyWorkers) -> float:
    total = run_to_end(workers.read()).total
    assert total is not None
    return total


@needs(programs=("haproxy",))
def test_a_real_haproxy_by_its_socket_and_by_its_csv_page(tmp_path: Path) -> None:
    with web_server(one_answer) as url:
        web = int(url.split(":")[2].split("/")[0])
        with haproxy(tmp_path, web, "maxconn 4") as (port, csv):
            by_socket = HaproxyWorkers(str(tmp_path / "stats.sock"), None, frozenset({"www", "web"}))
            by_page = HaproxyWorkers(parse_page_url(f"http://127.0.0.1:{csv}/stats;csv", ""))
            first = run_to_end(by_socket.read())
            page = run_to_end(by_page.read())
            assert (first.busy, first.idle, page.busy, page.idle) == (1.0, 4.0, 1.0, 4.0)
            before = total_of(by_socket), total_of(by_page)
            for _ in range(20):
                get(port)
            # A moment after the client has its answer, HAProxy has counted the request
            until(lambda: total_of(by_socket) >= before[0] + 21)
            # So it is with the requests for the page: the last one before each reading may be counted after it
            assert total_of(by_page) - before[1] in (20, 21, 22), "20 requests, and those for the page"


@needs(programs=("haproxy",))
def test_requests_in_progress_and_in_the_queue(tmp_path: Path) -> None:
    with ForkingServer() as silent, haproxy(tmp_path, silent.port, "maxconn 1") as (port, _):
        workers = HaproxyWorkers(str(tmp_path / "stats.sock"))
        with open_request(port), open_request(port):
            until(lambda: run_to_end(workers.read()).own["haproxy_queue"] == 1.0)
            status = run_to_end(workers.read())
            assert (status.busy, status.idle) == (3.0, 0.0), (
                "the request in progress, the one in the queue, and the agent's own"
            )


@needs(programs=("haproxy",))
def test_a_wrong_path_at_a_real_haproxy(tmp_path: Path) -> None:
    advice = "check that the path is that of 'stats uri', followed by ';csv'"
    with haproxy(tmp_path, free_port()) as (_, csv):
        for path, what in (("/stats", "not a table of HAProxy's statistics"), ("/other;csv", "HTTP status 503")):
            url = parse_page_url(f"http://127.0.0.1:{csv}{path}", "")
            with pytest.raises(MissingValueError, match=f"^{re.escape(f'{url}: {what}; {advice}')}$"):
                run_to_end(HaproxyWorkers(url).read())


@needs(programs=("haproxy",))
def test_a_long_table_of_a_real_haproxy(tmp_path: Path) -> None:
    """HAProxy sends a long table in chunks, and in parts over its socket."""
    servers = "".join(f"    server s{number} 127.0.0.1:9 maxconn 5\n" for number in range(1000))
    with haproxy(tmp_path, free_port(), f"maxconn 5\n{servers}") as (_, csv):
        for place in (parse_page_url(f"http://127.0.0.1:{csv}/stats;csv", ""), str(tmp_path / "stats.sock")):
            assert run_to_end(HaproxyWorkers(place).read()).idle == 5.0 * 1001


def test_sockets_that_cannot_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "stats.sock")
    with pytest.raises(MissingValueError, match=r"No such file or directory; add 'stats socket .*stats.sock mode 660"):
        run_to_end(HaproxyWorkers(path).read())
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        with pytest.raises(MissingValueError, match="Connection refused; check that HAProxy is running"):
            run_to_end(HaproxyWorkers(path).read())
        listening.listen()
        with pytest.raises(MissingValueError, match="no complete response within 5 s"):
            run_to_end(HaproxyWorkers(path).read(), 0.1)

        def refuse() -> None:
            for _ in range(2):  # the first connection is the one that timed out
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(100)
                    connection.sendall(b"Permission denied\n")

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(MissingValueError, match=f"{path}: not a table of HAProxy's statistics"):
            run_to_end(HaproxyWorkers(path).read())
        thread.join(20)
