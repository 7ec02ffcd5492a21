"""Samples the CPU and memory use of a lab's control groups once a second in a thread."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lbdns_shared.errors import LbdnsError
from lbdns_tools.lab.machines.control_groups import ControlGroup

INTERVAL: Final = 1.0  # s; the same as in the original studies
PATIENCE: Final = 3.0  # s to wait for the last sample: the thread runs late on a machine under load
STOP_S: Final = 5.0
_UNREADABLE: Final = (OSError, ValueError, KeyError, LbdnsError)  # the group is missing, or being made or removed
#: s; a sample is taken shortly after its second has ended, so its bounds may be off by this much
SLACK: Final = 0.05


@dataclass(frozen=True, slots=True)
class MachineSample:
    """The control groups' CPU use (as a percentage of one core) and memory use (in bytes) in one second."""

    time: float  # Unix, at the end of the second
    cpu: Mapping[str, float]
    memory: Mapping[str, int]


class CgroupSampler:
    """A context manager that samples control groups at whole seconds. Samples omit groups that no longer exist.

    ``also`` is called, in another thread, whenever a sample is taken.
    """

    def __init__(
        self, groups: Mapping[str, ControlGroup], interval: float = INTERVAL, also: Callable[[], None] = lambda: None
    ) -> None:
        self._groups, self._interval, self._also = dict(groups), interval, also
        self._before: dict[str, tuple[float, float]] = {}  # group -> monotonic time and CPU seconds of the last read
        self._samples: list[tuple[float, MachineSample]] = []  # with the Unix time at which the sample begins
        self._changed = threading.Condition()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> CgroupSampler:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join(STOP_S)

    def between(self, begin: float, end: float) -> tuple[MachineSample, ...]:
        """Return the samples that lie entirely between two Unix times. The method waits up to PATIENCE for the last
        sample."""
        last = math.floor(end / self._interval) * self._interval
        with self._changed:
            self._changed.wait_for(lambda: bool(self._samples) and self._samples[-1][1].time >= last, PATIENCE)
            return tuple(
                sample for begun, sample in self._samples if begun >= begin - SLACK and sample.time <= end + SLACK
            )

    def _run(self) -> None:
        begun = time.time()
        self._read(begun)
        while not self._ends.wait(self._interval - time.time() % self._interval):
            now = time.time()
            sample = self._read(now)
            with self._changed:
                self._samples.append((begun, sample))
                self._changed.notify_all()
            begun = now
            self._also()

    def _read(self, now: float) -> MachineSample:
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
                if used >= before and read_at > before_at:  # a lower count means that the group was made anew
                    cpu[name] = 100 * (used - before) / (read_at - before_at)
            self._before[name] = (read_at, used)
        return MachineSample(now, cpu, memory)
