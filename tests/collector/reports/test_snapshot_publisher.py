"""Tests of the snapshot publisher with a virtual clock: which snapshots are delivered, and when."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lbdns.model.snapshot import Snapshot
from lbdns_collector.reports.snapshot_publisher import GATHERING, PUBLISHING, SnapshotPublisher


class Bench:
    """A publisher with a virtual clock and timers, in which each publication takes ``cost`` seconds."""

    def __init__(self, cost: float, making: float = 0.0) -> None:
        self.now, self.cost, self.making = 100.0, cost, making
        self.version = 0
        self.published: list[tuple[float, int]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.publisher = SnapshotPublisher(self._make, self._deliver, self._call_later, lambda: self.now)

    def _make(self) -> Snapshot:
        self.now += self.making
        return Snapshot(self.version)

    def _deliver(self, snapshot: Snapshot) -> None:
        self.published.append((round(self.now, 6), snapshot.version))
        self.now += self.cost

    def _call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        self.timers.append((self.now + delay, callback))
        return Timer(self, callback)

    def change(self) -> None:
        self.version += 1
        self.publisher.changed()

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and min(when for when, _ in self.timers) <= end:
            when, callback = min(self.timers, key=lambda timer: timer[0])
            self.timers.remove((when, callback))
            self.now = max(self.now, when)
            callback()
        self.now = max(self.now, end)


class Timer:
    def __init__(self, bench: Bench, callback: Callable[[], None]) -> None:
        self._bench, self._callback = bench, callback

    def cancel(self) -> None:
        self._bench.timers = [timer for timer in self._bench.timers if timer[1] is not self._callback]


def test_first_change_at_once() -> None:
    bench = Bench(0.001)
    bench.change()
    assert bench.published == [(100.0, 1)]
    assert bench.timers == []


def test_changes_within_the_gap_together() -> None:
    bench = Bench(0.001)
    for _ in range(2):  # the gap needs two publications
        bench.change()
        bench.advance(1.0)
    bench.published.clear()
    start = bench.now
    for _ in range(5):
        bench.change()
        bench.advance(0.001)
    bench.advance(1.0)
    (first, one), (second, rest) = bench.published
    assert (first, one, rest) == (round(start, 6), 3, 7)
    assert second - first == pytest.approx(0.011)  # the time to publish, and a pause ten times as long


@pytest.mark.parametrize(
    ("making", "cost", "gap"),
    [
        (0, 0.0001, 0.004),
        (0, 0.001, GATHERING.longest),
        (0, 0.02, 0.2),
        (0, 0.5, PUBLISHING.longest),
        (0.0001, 0.0001, 0.008),
        (0.004, 0.001, 0.05),
    ],
)
def test_gap_grows_with_the_cost(making: float, cost: float, gap: float) -> None:
    bench = Bench(cost, making)
    for _ in range(2):
        bench.change()
        bench.advance(5.0)
    assert bench.publisher.gap == pytest.approx(gap)


@pytest.mark.parametrize(("cost", "share"), [(0.0001, 1 / 41), (0.002, 1 / 11), (0.03, 1 / 11)])
def test_publishing_takes_a_share_of_the_time(cost: float, share: float) -> None:
    bench = Bench(cost)
    start = bench.now
    while bench.now < start + 10.0:
        bench.change()
        bench.advance(0.0001)
    assert len(bench.published) * cost / 10.0 == pytest.approx(share, rel=0.15)
    assert bench.published[-1][1] > 0.9 * bench.version


def test_one_hiccup_delays_no_report() -> None:
    bench = Bench(0.0001)
    bench.change()
    bench.advance(1.0)
    bench.cost = 0.05
    bench.change()
    bench.cost = 0.0001
    bench.advance(0.005)
    bench.change()
    assert len(bench.published) == 3


def test_nothing_new_is_not_delivered() -> None:
    bench = Bench(0.001)
    bench.change()
    bench.advance(1.0)
    bench.publisher.changed()
    assert bench.published == [(100.0, 1)]


def test_stop_drops_pending_changes() -> None:
    bench = Bench(0.01)
    for _ in range(2):
        bench.change()
        bench.advance(1.0)
    bench.change()
    bench.change()
    assert len(bench.timers) == 1
    bench.publisher.stop()
    bench.advance(1.0)
    assert len(bench.published) == 3


def test_goes_on_after_a_delivery_that_failed() -> None:
    delivered = []

    def deliver(snapshot: Snapshot) -> None:
        delivered.append(snapshot.version)
        if snapshot.version == 1:
            raise RuntimeError("of the deliverer")

    bench = Bench(0.0)
    publisher = SnapshotPublisher(lambda: Snapshot(bench.version), deliver, bench._call_later, lambda: bench.now)
    bench.version = 1
    with pytest.raises(RuntimeError):
        publisher.changed()
    bench.version = 2
    publisher.changed()
    assert delivered == [1, 2]
