"""One worker as the main process sees it: its connection, what it has been sent and what it has replied."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Mapping

from lbdns.model.snapshot import EMPTY_SNAPSHOT, Reading, Snapshot
from lbdns.server.dns_service import AnsweringConfiguration
from lbdns.server.workers.messages import MessageChannel
from lbdns.server.workers.snapshot_delta import write_snapshot_delta
from lbdns.server.workers.worker import Assignment, WorkerMessage


class WorkerProcess:
    """Worker ``number``, whichever process it currently is."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0  # 0 until the fork server reports it
        self.channel: MessageChannel | None = None  # None: no process, or it is about to end
        self.ready = 0  # the generation of the newest assignment it has prepared
        self.active = 0  # the generation of the assignment that it answers from
        self.failures = 0  # processes that ended while they prepared the current change
        self.replied = 0  # the last request for counters that it has replied to
        self._readings: Mapping[str, Reading] = EMPTY_SNAPSHOT.readings  # those it knows
        self._sockets: frozenset[int] = frozenset()  # the numbers of those it answers on
        self._next_sockets: frozenset[int] = frozenset()  # the same after the next switch

    @property
    def is_behind(self) -> bool:
        """Whether it has not read all that was sent to it, or has no process."""
        return self.channel is None or self.channel.is_behind

    def connect(self, channel: MessageChannel) -> None:
        """Begin with a new process, which knows nothing."""
        self.channel, self.pid = channel, 0
        self._readings, self._sockets = EMPTY_SNAPSHOT.readings, frozenset()

    def disconnect(self) -> None:
        """Take note that the process has ended, or is about to."""
        self.channel = None
        self.ready = self.active = 0

    def send(self, message: WorkerMessage, sockets: tuple[socket.socket, ...] = ()) -> None:
        """Send a message with duplicates of ``sockets``; without a process this does nothing."""
        if self.channel:
            self.channel.send(pickle.dumps(message, pickle.HIGHEST_PROTOCOL), sockets)

    def send_assignment(self, generation: int, farm: bytes, new: AnsweringConfiguration) -> None:
        """Have the process prepare ``new``. ``farm`` is its pickled farm; empty: the process has it already."""
        sockets = new.sockets[self.number]
        fresh = tuple(sockets.keys() - self._sockets)
        assignment = Assignment(generation, farm, new.secrets, len(new.sockets), tuple(sockets), fresh)
        self._next_sockets = frozenset(sockets)
        self.send(assignment, tuple(sockets[number] for number in fresh))

    def send_switch(self, generation: int) -> None:
        """Have the process answer from the assignment that was sent last."""
        self._sockets = self._next_sockets
        self.send(("switch", generation))

    def send_snapshot(self, snapshot: Snapshot, written: dict[int, bytes]) -> None:
        """Send what changed since the snapshot sent before, unless the process is behind: it then gets all changes at
        once, later. ``written`` keeps deltas by the identity of the readings they start from: most workers share one.
        """
        if self.is_behind or self._readings is snapshot.readings:
            return
        delta = written.get(id(self._readings))
        if delta is None:
            delta = written[id(self._readings)] = write_snapshot_delta(self._readings, snapshot)
        self._readings = snapshot.readings
        self.send(("snapshot", delta))
