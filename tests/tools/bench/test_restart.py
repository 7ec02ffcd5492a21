"""No query lost, with real processes: the benchmark in small. Its own counting is tested too."""

from __future__ import annotations

import socket
import threading

import pytest

from lbdns_tools.bench.restart import Deed, Load, kill_worker, measure, reload, take_over

RATE = 4000.0  # queries/s: what a machine with other things to do can answer
QUERIES = 4000


@pytest.mark.parametrize("workers", [1, 2])
def test_reloads(workers: int) -> None:
    tally = measure(QUERIES, RATE, workers, [reload(ttl) for ttl in (1, 2, 3)])
    assert (tally.lost, tally.unexpected) == (0, 0), tally
    assert tally.answered == tally.sent >= QUERIES
    assert len(tally.deeds) == 3


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (1, 2), (3, 2)])
def test_a_new_process_takes_the_place(before: int, after: int) -> None:
    tally = measure(QUERIES, RATE, before, [take_over(after)])
    assert (tally.lost, tally.unexpected) == (0, 0), tally
    assert tally.answered == tally.sent >= QUERIES


def test_workers_die() -> None:
    kills = [kill_worker(number) for number in range(3)]
    tally = measure(QUERIES, RATE, 2, kills)
    # What a process has read and not answered yet dies with it (one query, or with the native part one batch, which
    # is short at this rate); what waits in its socket doesn't
    assert tally.lost <= 4 * len(kills), tally
    assert tally.answered == tally.sent - tally.lost


class Deaf:
    """Answers some queries, or says they failed."""

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


def test_what_is_refused_counts_as_lost() -> None:
    assert Load(Deaf(0).port, 50, 0).run().lost == 50


def test_an_error_is_no_answer() -> None:
    tally = Load(Deaf(1, rcode=2).port, 1, 0).run()
    assert (tally.answered, tally.unexpected) == (0, 1)


def test_deeds_that_fail_are_told() -> None:
    def fail(_: object) -> str:
        raise RuntimeError("a deed")

    deed: Deed = fail
    with pytest.raises(RuntimeError, match="a deed"):
        measure(10, 0, 1, [deed])
