"""Checks that no query is lost when real processes restart, and that the benchmark counts lost queries."""

from __future__ import annotations

from operator import methodcaller
from pathlib import Path

import pytest

from lbdns_tools.bench.dns.queries_during_restart import Disruption, measure_losses

RATE = 4000.0  # queries/s: what a machine with other things to do can answer
QUERIES = 4000


@pytest.mark.parametrize("workers", [1, 2])
def test_reloads(workers: int, tmp_path: Path) -> None:
    tally = measure_losses(tmp_path, QUERIES, RATE, workers, [methodcaller("reload", ttl) for ttl in (1, 2, 3)])
    assert (tally.lost, tally.unexpected) == (0, 0), tally
    assert tally.answered == tally.sent >= QUERIES
    assert len(tally.disruptions) == 3


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (1, 2), (3, 2)])
def test_a_new_process_takes_the_place(before: int, after: int, tmp_path: Path) -> None:
    tally = measure_losses(tmp_path, QUERIES, RATE, before, [methodcaller("take_over", after)])
    assert (tally.lost, tally.unexpected) == (0, 0), tally
    assert tally.answered == tally.sent >= QUERIES


def test_workers_die(tmp_path: Path) -> None:
    kills = [methodcaller("kill_worker", number) for number in range(3)]
    tally = measure_losses(tmp_path, QUERIES, RATE, 2, kills)
    # The queries that a process has read but not answered die with it: one, or with the native extension one batch,
    # which is short at this rate. Queries that wait in its socket survive.
    assert tally.lost <= 4 * len(kills), tally
    assert tally.answered == tally.sent - tally.lost


def test_a_failed_disruption_is_an_error(tmp_path: Path) -> None:
    def fail(_: object) -> str:
        raise RuntimeError("a disruption")

    disruption: Disruption = fail
    with pytest.raises(RuntimeError, match="a disruption"):
        measure_losses(tmp_path, 10, 0, 1, [disruption])
