"""Tests of the measuring load, against a DNS server whose answers the tests choose."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from lbdns_tools.faults.query_load import QueryLoad
from lbdns_tools.faults.query_records import NO_MEMBER, QueryRecord, figures
from lbdns_tools.faults.waiting import wait_for
from lbdns_tools.free_ports import free_port

MEMBERS = ("127.0.0.16", "127.0.0.17")
#: (query, the client's address, number of the datagram) -> response, or None to stay silent
Behaviour = Callable[[dns.message.Message, tuple[str, int], int], dns.message.Message | None]


def answer(query: dns.message.Message, address: str = MEMBERS[1]) -> dns.message.Message:
    response = dns.message.make_response(query)
    response.flags |= dns.flags.AA
    name = query.question[0].name
    response.answer = [
        dns.rrset.from_text(name, 0, "IN", "CNAME", "member.hobbit."),
        dns.rrset.from_text("member.hobbit.", 0, "IN", "A", address),
    ]
    return response


@contextmanager
def dns_server(behave: Behaviour) -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(0.05)
        over = threading.Event()

        def serve() -> None:
            number = 0
            while not over.is_set():
                try:
                    data, client = sock.recvfrom(4096)
                except TimeoutError:
                    continue
                response = behave(dns.message.from_wire(data), client, number)
                number += 1
                if response:
                    sock.sendto(response.to_wire(), client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            over.set()
            thread.join()


def load_of(behave: Behaviour, queries: int, rate: float = 200.0) -> list[QueryRecord]:
    with dns_server(behave) as port:
        load = QueryLoad(port, rate, ["best.hobbit"], MEMBERS)
        load.start()
        assert wait_for(lambda: len(load.records) >= queries, 120.0)
        load.stop()
    return load.records


def test_every_query_is_recorded_with_its_member() -> None:
    def are_recorded() -> bool:
        """Return whether no query was lost. A busy machine may delay answers until the load sends a second query."""
        records = load_of(lambda query, client, number: answer(query, MEMBERS[number % 2]), 50)
        found = figures(records)
        assert found.wrong == 0
        assert {record.member for record in records if math.isfinite(record.waited)} == {0, 1}
        return found.lost == 0

    assert wait_for(are_recorded, 120.0)


def test_each_port_and_id_is_used_once() -> None:
    seen: list[tuple[int, int]] = []

    def behave(query: dns.message.Message, client: tuple[str, int], number: int) -> dns.message.Message:
        seen.append((client[1], query.id))
        return answer(query)

    load_of(behave, 100)
    assert len(seen) == len(set(seen))
    assert len({port for port, _ in seen}) == 16


def test_silence_is_lost_and_the_second_try_comes_from_another_port() -> None:
    first: dict[int, int] = {}

    def behave(query: dns.message.Message, client: tuple[str, int], number: int) -> dns.message.Message | None:
        first.setdefault(client[1], number)
        return answer(query) if number >= 16 else None  # a query from each port, then everything else

    records = load_of(behave, 40, rate=16.0)
    late = [record for record in records if record.tries == 2]
    assert len(late) >= 16
    assert all(math.isfinite(record.waited) and record.waited >= 1.0 for record in late)


def test_no_answer_at_all() -> None:
    records = load_of(lambda *_: None, 5, rate=10.0)
    assert all(record.tries == 2 and math.isinf(record.waited) and record.member == NO_MEMBER for record in records)
    assert figures(records).lost_after_retry == len(records)


def _changed(change: Callable[[dns.message.Message], object]) -> Behaviour:
    def behave(query: dns.message.Message, client: tuple[str, int], number: int) -> dns.message.Message:
        response = answer(query)
        change(response)
        return response

    return behave


def _not_authoritative(response: dns.message.Message) -> None:
    response.flags &= ~dns.flags.AA


@pytest.mark.parametrize("behave", [
    _changed(_not_authoritative),
    _changed(lambda response: response.set_rcode(dns.rcode.SERVFAIL)),
    _changed(lambda response: response.answer.clear()),
    lambda query, client, number: answer(query, "192.0.2.99"),
], ids=["not authoritative", "SERVFAIL", "empty", "an unknown address"])  # fmt: skip
def test_wrong_answers(behave: Behaviour) -> None:
    def are_all_wrong() -> bool:
        """Return whether all answers came in time, and were wrong. A busy machine may delay some."""
        records = load_of(behave, 5)
        assert figures(records).wrong == sum(record.is_wrong for record in records) > 0
        return all(record.is_wrong for record in records)

    assert wait_for(are_all_wrong, 120.0)


def test_a_closed_port_loses_everything_and_the_load_goes_on() -> None:
    load = QueryLoad(free_port(), 50.0, ["best.hobbit"], MEMBERS)
    load.start()
    assert wait_for(lambda: len(load.records) >= 20, 120.0)
    load.stop()
    assert all(math.isinf(record.waited) for record in load.records)


def test_take_forgets_the_records() -> None:
    load = QueryLoad(1, 50.0, ["best.hobbit"], MEMBERS)
    load.records = [QueryRecord(time.monotonic(), 0.1, 1, 0, False)]
    assert len(load.take()) == 1
    assert load.take() == []
