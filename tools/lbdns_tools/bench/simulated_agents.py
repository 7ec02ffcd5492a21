"""Simulates many agents: a few processes sign their reports, and send them evenly spread over the interval."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import struct
import time
from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psutil

from lbdns_shared.keys import MasterKey
from lbdns_shared.metric_catalogue import STANDARD_METRICS
from lbdns_shared.report import AgentKey, Report, encode, open_envelope
from lbdns_tools.bench.measured_processes import BenchmarkError
from lbdns_tools.bench.report_transports import ReportTarget

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

STEP: Final = 0.005  # seconds: a sender wakes at this interval and sends the reports that are due
#: Seconds: after a longer delay, a sender continues from where it is. Real agents would not send a burst either
LONGEST_DELAY: Final = 0.05
BODIES: Final = 97  # bodies with different metrics that all hosts share; prime, so that each host sends all of them
FIRST: Final = 2**32  # added to sequence numbers, so that all of them have the same length
AGENTS_PER_SENDER: Final = 10_000
LONGEST_RUN: Final = 1800.0  # seconds after which a sender stops in any case
PATIENCE: Final = 10.0  # seconds that a sender may take to stop
_SEQ, _TIME = b"\xa3seq\xcf", b"\xa4time\xcb"  # keys in the body (msgpack), with the types of their values


def agent_name(number: int) -> str:
    return f"m{number}"


class PreparedReports:
    """Signs reports with every standard metric.

    The body of a report does not contain its host, so all hosts share a few encoded bodies, in which only the sequence
    number and the time are replaced. The senders use less CPU time than with ``encode``.
    """

    def __init__(self, keys: Sequence[AgentKey], interval: float) -> None:
        chance = random.Random(1)
        self._keys = keys
        self._heads: list[bytes] = []
        for key in keys:
            envelope = open_envelope(encode(Report(key.host, 1, 1, 0.0, interval, {}), key))
            self._heads.append(envelope.signed.removesuffix(envelope.body))
        self._bodies: list[bytearray] = []
        for _ in range(BODIES):
            metrics = {name: round(chance.uniform(0, 100), 3) for name in STANDARD_METRICS}
            datagram = encode(Report(keys[0].host, 1, FIRST, time.time(), interval, metrics), keys[0])
            self._bodies.append(bytearray(open_envelope(datagram).body))
        self._seq_at, self._time_at = (self._bodies[0].index(key) + len(key) for key in (_SEQ, _TIME))

    def datagram(self, agent: int, seq: int, now: float) -> bytes:
        """Return a signed report. ``agent`` is the place of its key; ``now`` is in Unix seconds."""
        body = self._bodies[(agent + seq) % BODIES]
        struct.pack_into(">Q", body, self._seq_at, FIRST + seq)
        struct.pack_into(">d", body, self._time_at, now)
        signed = self._heads[agent] + body
        return signed + self._keys[agent].tag(signed)


@dataclass(frozen=True, slots=True)
class SenderTask:
    """The agents that one process simulates: ``count`` agents, beginning with number ``first``."""

    secret: bytes  # of the master key
    first: int
    count: int
    interval: float  # seconds
    target: ReportTarget
    parent: int  # process ID


class SenderProgress:
    """What the senders have done so far, in memory that they share with the parent, and the signal to stop."""

    def __init__(self, context: Any, senders: int) -> None:
        self.sent: MutableSequence[int] = context.Array("Q", senders, lock=False)
        self.bytes: MutableSequence[int] = context.Array("Q", senders, lock=False)
        self.behind: MutableSequence[float] = context.Array("d", senders, lock=False)  # seconds
        self.stop = context.Event()


class SenderSchedule:
    """Says how many reports are due. Times are in seconds after the start."""

    def __init__(self, agents: int, interval: float) -> None:
        self._rate = agents / interval
        self._longest = max(LONGEST_DELAY, 2 / self._rate)  # time for one report at least
        self._delay = 0.0  # seconds by which the schedule has been delayed
        self.behind = 0.0  # longest delay of a report

    def due(self, now: float, sent: int) -> int:
        """Return the number of reports to send now. If they are late, they delay all later reports."""
        late = now - self._delay - sent / self._rate
        self.behind = max(self.behind, late - 1 / self._rate - STEP)
        if late > self._longest:
            self._delay += late - self._longest
            late = self._longest
        return int(late * self._rate + 1e-9)


def send_until_stopped(task: SenderTask, progress: SenderProgress, place: int) -> None:
    """Send reports until the parent asks to stop, or is gone. This function runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops the senders
    master = MasterKey(task.secret)
    names = [agent_name(task.first + number) for number in range(task.count)]
    reports = PreparedReports([master.agent_key(name) for name in names], task.interval)
    schedule = SenderSchedule(task.count, task.interval)
    transport = task.target.connect()
    start, sent, size = time.monotonic(), 0, 0
    while not progress.stop.is_set() and os.getppid() == task.parent and time.monotonic() - start < LONGEST_RUN:
        for _ in range(schedule.due(time.monotonic() - start, sent)):
            round_before, agent = divmod(sent, task.count)
            datagram = reports.datagram(agent, round_before + 1, time.time())
            transport.send(names[agent], datagram)
            sent, size = sent + 1, size + len(datagram)
        transport.flush()
        progress.sent[place], progress.bytes[place], progress.behind[place] = sent, size, schedule.behind
        time.sleep(STEP)
    transport.close()


class SimulatedAgents:
    """A context manager that runs the senders. Reports begin when the block is entered, and end with ``stop``."""

    def __init__(self, master: MasterKey, agents: int, interval: float, target: ReportTarget) -> None:
        senders = -(-agents // AGENTS_PER_SENDER)
        context = multiprocessing.get_context("spawn")
        self._progress = SenderProgress(context, senders)
        self._processes: list[BaseProcess] = []
        for place in range(senders):
            first, end = (agents * edge // senders for edge in (place, place + 1))
            task = SenderTask(master.secret, first, end - first, interval, target, os.getpid())
            arguments = (task, self._progress, place)
            self._processes.append(context.Process(target=send_until_stopped, args=arguments, daemon=True))

    def __enter__(self) -> SimulatedAgents:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop.set()
        for process in self._processes:
            process.join(PATIENCE)
            process.kill()

    @property
    def sent(self) -> int:
        """The number of reports sent so far. Raises BenchmarkError if a sender has failed."""
        for process in self._processes:
            if process.exitcode:
                raise BenchmarkError(f"a process that sends reports failed with exit status {process.exitcode}")
        return sum(self._progress.sent)

    @property
    def bytes(self) -> int:
        """The bytes of all reports sent so far."""
        return sum(self._progress.bytes)

    @property
    def behind(self) -> float:
        """The longest delay so far between a report's scheduled time and its transmission, in seconds."""
        return max(0.0, *self._progress.behind)

    def cpu_seconds(self) -> float:
        """Return the CPU time of all senders so far. They must be running."""
        return sum(sum(psutil.Process(process.pid).cpu_times()[:2]) for process in self._processes)

    def stop(self) -> int:
        """Stop sending, and return the final number of reports. Raises BenchmarkError."""
        self._progress.stop.set()
        for process in self._processes:
            process.join(PATIENCE)
            if process.exitcode is None:
                raise BenchmarkError(f"a process that sends reports did not stop within {PATIENCE:g} s")
        return self.sent
