"""Tests of the load with a limited number of queries in flight, against servers that stop answering."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import pytest

from lbdns_tools.bench.dns.windowed_load import WindowedLoad


class FewAnswers:
    """A server that answers the given number of queries, each with ``rcode`` and ``records`` records, and then
    stops."""

    def __init__(self, answers: int, rcode: int = 0, records: int = 1) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port: int = self.sock.getsockname()[1]
        self._answers, self._rcode, self._records = answers, rcode, records
        threading.Thread(target=self._run).start()

    def _run(self) -> None:
        with self.sock:
            for _ in range(self._answers):
                query, client = self.sock.recvfrom(512)
                counts = query[4:6] + bytes((0, self._records)) + query[8:]
                self.sock.sendto(query[:2] + bytes((0x84, self._rcode)) + counts, client)


def test_refused_queries_count_as_lost() -> None:
    assert WindowedLoad(FewAnswers(0).port, 50, 0).run().lost == 50


@pytest.mark.parametrize(
    ("rcode", "records", "counts"), [(0, 1, (1, 0)), (2, 0, (0, 1)), (0, 0, (0, 1))],
    ids=["answer", "error", "no record"],
)  # fmt: skip
def test_an_answer_has_a_record_and_no_error(rcode: int, records: int, counts: tuple[int, int]) -> None:
    tally = WindowedLoad(FewAnswers(1, rcode, records).port, 1, 0).run()
    assert (tally.answered, tally.unexpected) == counts


def test_clients_do_not_make_up_for_a_pause() -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as server:
        server.bind(("127.0.0.1", 0))
        load = WindowedLoad(server.getsockname()[1], 0, rate=100.0)
        load.tally.sent = 50
        assert load._sending_time(0.55) == pytest.approx(0.55), "a tenth of a second behind"
        assert load._sending_time(10.5) == pytest.approx(0.6), "50 queries were sent before a pause of ten seconds"
        load.tally.sent = 60
        assert load._sending_time(10.6) == pytest.approx(0.7)


def test_answers_that_the_client_has_no_room_for_are_counted() -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as server:
        server.bind(("127.0.0.1", 0))
        load = WindowedLoad(server.getsockname()[1], 0, rate=0)
        client = next(iter(load._sockets.values()))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # Linux's minimum
        for _ in range(100):
            server.sendto(bytes(512), client.getsockname())
        assert load.run().overflows > 0
