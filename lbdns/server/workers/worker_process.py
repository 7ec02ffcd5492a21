"""The main process's view of a worker: the worker's current process, its state, and the messages sent to it."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Mapping
from typing import Final

from lbdns.model.snapshot import EMPTY_SNAPSHOT, Reading, Snapshot
from lbdns.server.dns_service import AnsweringConfiguration
from lbdns.server.workers.cpu_starvation import CpuStarvation
from lbdns.server.workers.heartbeat import Heartbeat
from lbdns.server.workers.messages import MessageChannel
from lbdns.server.workers.snapshot_delta import write_snapshot_delta
from lbdns.server.workers.worker import Assignment, WorkerMessage

MAX_FAULT: Final = 300  # characters; more would be a worker's mistake
_HEARTBEAT: Final = pickle.dumps(("heartbeat", None), pickle.HIGHEST_PROTOCOL)


class WorkerProcess:
    """Tracks the current process of worker ``number`` and the messages sent to that process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0  # 0 until the fork server reports it
        self.launch = 0  # the number of the request that started the process
        self.channel: MessageChannel | None = None  # None: there is no process, or the process is about to end
        self.ready = 0  # the generation of the newest assignment it has prepared
        self.active = 0  # the generation of the assignment that it answers from
        self.failures = 0  # processes that ended while they prepared the current change
        self.replied = 0  # the last request for counters that it has replied to
        self.heartbeat = Heartbeat()
        self.reported_fault = ""  # why it does not answer, according to its last reply to a heartbeat
        self.start_failure = ""  # why no process could be started, until one answers
        self.unswitched = 0  # heartbeats since it was told to begin to answer, while it has not begun
        self._must_switch = False
        self._starvation: CpuStarvation | None = None  # observed while its replies are late
        self._readings: Mapping[str, Reading] = EMPTY_SNAPSHOT.readings  # the readings that the process has received
        self._sockets: frozenset[int] = frozenset()  # the numbers of the sockets it answers on
        self._next_sockets: frozenset[int] = frozenset()  # the same after the next switch

    @property
    def is_behind(self) -> bool:
        """Return whether the process is missing, or has not yet read everything that was sent to it."""
        return self.channel is None or self.channel.is_behind

    def connect(self, channel: MessageChannel) -> None:
        """Use ``channel`` to communicate with a new process, which has received nothing yet."""
        self.channel, self.pid = channel, 0
        self.heartbeat, self.reported_fault = Heartbeat(), ""
        self.unswitched, self._must_switch, self._starvation = 0, False, None
        self._readings, self._sockets = EMPTY_SNAPSHOT.readings, frozenset()

    def disconnect(self) -> None:
        """Record that the process has ended or will end soon."""
        self.channel = None
        self.ready = self.active = 0

    @property
    def fault(self) -> str:
        """Return the reason why the worker is not answering queries, or an empty string if it is."""
        if self.start_failure:
            return f"cannot be started: {self.start_failure}"
        if self.channel is None:
            return "has ended"
        if self.heartbeat.silence:
            return f"has not replied for {self.heartbeat.silence}"
        if not self.active:
            return "has not started yet"
        return self.reported_fault

    @property
    def is_hung(self) -> bool:
        """Return whether to replace the process because it does not reply.

        Check this property immediately before a heartbeat.
        """
        if not self.heartbeat.is_hung:
            return False
        starved = self._starvation is not None and self._starvation.is_starved()
        return not starved or self.heartbeat.is_starved_too_long

    def beat(self) -> None:
        """Request a heartbeat reply from the process, if there is one."""
        if self.channel:
            if not self.heartbeat.silence:
                self._starvation = None
            elif self._starvation is None and self.pid:
                self._starvation = CpuStarvation(self.pid)
            self.heartbeat.beat()
            self.unswitched += self._must_switch and not self.active
            if not self.channel.is_behind:
                self.channel.send(_HEARTBEAT)

    def take_heartbeat(self, fault: str) -> None:
        """Record the process's reply to a heartbeat."""
        self.heartbeat.replied()
        self.reported_fault = fault[:MAX_FAULT]

    def send(self, message: WorkerMessage, sockets: tuple[socket.socket, ...] = ()) -> None:
        """Send a message with duplicates of ``sockets``. If the worker has no process, the method does nothing."""
        if self.channel:
            self.channel.send(pickle.dumps(message, pickle.HIGHEST_PROTOCOL), sockets)

    def send_assignment(self, generation: int, farm: bytes, new: AnsweringConfiguration) -> None:
        """Send ``new`` to the process, which then prepares it.

        ``farm`` is the pickled farm, or empty if the process already has this farm.
        """
        sockets = new.sockets[self.number]
        fresh = tuple(sockets.keys() - self._sockets)
        assignment = Assignment(generation, farm, new.secrets, len(new.sockets), tuple(sockets), fresh)
        self._next_sockets = frozenset(sockets)
        self.send(assignment, tuple(sockets[number] for number in fresh))

    def send_switch(self, generation: int) -> None:
        """Make the process switch to the most recently sent assignment."""
        self._sockets = self._next_sockets
        self._must_switch = True
        self.send(("switch", generation))

    def send_snapshot(self, snapshot: Snapshot, written: dict[int, bytes], *, even_if_behind: bool = False) -> None:
        """Send the changes since the snapshot that was sent last.

        If the process is behind and ``even_if_behind`` is false, nothing is sent, because one later message will
        contain all changes. Most workers need the same delta, so ``written`` caches the deltas. The key of each delta
        is the ``id`` of the readings to which the delta applies.
        """
        if (self.is_behind and not even_if_behind) or self._readings is snapshot.readings:
            return
        delta = written.get(id(self._readings))
        if delta is None:
            delta = written[id(self._readings)] = write_snapshot_delta(self._readings, snapshot)
        self._readings = snapshot.readings
        self.send(("snapshot", delta))
