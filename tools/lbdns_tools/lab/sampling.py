"""CPU and memory of every machine of a lab, read from its control groups once a second, beside what is measured."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Protocol

from lbdns.errors import LbdnsError
from lbdns_tools.lab.case import Sample

INTERVAL: Final = 1.0  # s; as often as the studies did it
PATIENCE: Final = 3.0  # s that are waited for the last sample: the thread gets its turn late on a machine under load
STOP_S: Final = 5.0
_UNREADABLE: Final = (OSError, ValueError, KeyError, LbdnsError)  # gone, or half of it there
#: s; a sample is taken a little after its second is over, so its beginning may lie this much before a given one
SLACK: Final = 0.05


class Counted(Protocol):
    """A control group as far as it is read here."""

    def cpu_seconds(self) -> float: ...

    def memory_bytes(self) -> int | None: ...


class Sampler:
    """Reads groups in a thread, at whole seconds of the clock. A context manager; what it has read stays readable.

    A group that can't be read is left out of a sample and never stops the others: groups end when machines die,
    which is part of some studies.
    """

    def __init__(
        self, groups: Mapping[str, Counted], interval: float = INTERVAL, clock: Callable[[], float] = time.time
    ) -> None:
        self._groups, self._interval, self._clock = dict(groups), interval, clock
        self._before: dict[str, tuple[float, float]] = {}  # group -> monotonic time and CPU seconds read last
        self._samples: list[tuple[float, Sample]] = []  # with the time at which it begins
        self._changed = threading.Condition()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join(STOP_S)

    def between(self, begin: float, end: float) -> tuple[Sample, ...]:
        """The samples of seconds that lie wholly between two Unix times, so that nothing of before or after is in them.

        The last of them is waited for, but no longer than it can take.
        """
        last = math.floor(end / self._interval) * self._interval
        with self._changed:
            self._changed.wait_for(lambda: bool(self._samples) and self._samples[-1][1].time >= last, PATIENCE)
            return tuple(
                sample for begun, sample in self._samples if begun >= begin - SLACK and sample.time <= end + SLACK
            )

    def _run(self) -> None:
        begun = self._clock()
        self._read(begun)
        while not self._ends.wait(self._interval - self._clock() % self._interval):
            now = self._clock()
            sample = self._read(now)
            with self._changed:
                self._samples.append((begun, sample))
                self._changed.notify_all()
            begun = now

    def _read(self, now: float) -> Sample:
        cpu: dict[str, float] = {}
        memory: dict[str, int] = {}
        for name, group in self._groups.items():
            with suppress(*_UNREADABLE):
                size = group.memory_bytes()
                memory |= {} if size is None else {name: size}
            try:
                used, read_at = group.cpu_seconds(), time.monotonic()
            except _UNREADABLE:
                self._before.pop(name, None)
                continue
            if name in self._before:
                before_at, before = self._before[name]
                if used >= before and read_at > before_at:  # less: the group was removed and made anew
                    cpu[name] = 100 * (used - before) / (read_at - before_at)
            self._before[name] = (read_at, used)
        return Sample(now, cpu, memory)
