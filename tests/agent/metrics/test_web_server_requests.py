from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import web_server_requests
from lbdns_agent.missing_values import SwitchedOffError
from lbdns_agent.webserver.worker_status import WorkerStatus
from tests.agent.fixtures import STATUS, host_with_kernel
from tests.agent.waiting import run_to_end


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("prefork_extended", WorkerStatus(49.0, 1.0, 4.0)),
        ("prefork_plain", WorkerStatus(None, 1.0, 4.0)),
        ("worker_extended", WorkerStatus(49.0, 1.0, 124.0)),
        ("worker_plain", WorkerStatus(None, 1.0, 124.0)),
        ("event_extended", WorkerStatus(49.0, 1.0, 124.0)),
        ("event_plain", WorkerStatus(None, 1.0, 124.0)),
    ],
)
def test_real_pages(name: str, status: WorkerStatus) -> None:
    assert web_server_requests.parse((STATUS / f"{name}.txt").read_bytes()) == status


def test_every_captured_page_is_tested() -> None:
    assert len(list(STATUS.glob("*.txt"))) == 6


def test_the_names_of_apache_1_3() -> None:
    assert web_server_requests.parse(b"Total Accesses: 7\nBusyServers: 2\nIdleServers: 3\n") == WorkerStatus(
        7.0, 2.0, 3.0
    )


PAGE = (STATUS / "event_extended.txt").read_bytes()


@pytest.mark.parametrize("length", range(PAGE.index(b"IdleWorkers: 1") + len("IdleWorkers: 124")))
def test_a_page_cut_short_before_the_workers_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="BusyWorkers"):
        web_server_requests.parse(PAGE[:length])


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "", "many", "1e300"])
def test_numbers_that_are_none(number: str) -> None:
    with pytest.raises(ValueError, match=r"Total Accesses is|could not convert"):
        web_server_requests.parse(f"Total Accesses: {number}\nBusyWorkers: 1\nIdleWorkers: 1\n".encode())


def test_the_page_for_people_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\?auto"):
        web_server_requests.parse(b"<html><body><h1>Apache Server Status</h1>\n<dl>\n")


def test_switched_off() -> None:
    with pytest.raises(SwitchedOffError):
        run_to_end(web_server_requests.read(host_with_kernel("6.18")))


@given(st.binary() | st.text("TotalAcesBuyIdWrk: 123456789\n").map(str.encode))
def test_anything_else_is_a_value_error(page: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert web_server_requests.parse(page).busy >= 0
