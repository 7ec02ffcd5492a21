"""Tests of the load with a limited number of queries in flight, against servers that stop answering."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import pytest

from lbdns_tools.bench.dns.windowed_load import WindowedLoad


class FewAnswers:
    """A server that answers the given number of queries with ``rcode`` and then stops."""

    def __init__(self, answers: int, rcode: int = 0) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port: int = self.sock.getsockname()[1]
        self._answers, self._rcode = answers, rcode
        threading.Thread(target=self._run).start()

    def _run(self) -> None:
        with self.sock:
            for _ in range(self._answers):
                query, client = self.sock.recvfrom(512)
                self.sock.sendto(query[:2] + bytes((0x84, self._rcode)) + query[4:], client)


def test_refused_queries_count_as_lost() -> None:
    assert WindowedLoad(FewAnswers(0).port, 50, 0).run().lost == 50


def test_an_error_is_no_answer() -> None:
    tally = WindowedLoad(FewAnswers(1, rcode=2).port, 1, 0).run()
    assert (tally.answered, tally.unexpected) == (0, 1)


def test_clients_do_not_make_up_for_a_pause() -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as server:
        server.bind(("127.0.0.1", 0))
        load = WindowedLoad(server.getsockname()[1], 0, rate=100.0)
        load.tally.sent = 50
        assert load._sending_time(0.55) == pytest.approx(0.55), "a tenth of a second behind"
        assert load._sending_time(10.5) == pytest.approx(0.6), "50 queries were sent before a pause of ten seconds"
        load.tally.sent = 60
        assert load._sending_time(10.6) == pytest.approx(0.7)
