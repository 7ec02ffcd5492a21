"""DNS over UDP on the native plane: a thread of the native part answers common queries without the interpreter.

The thread owns the socket. The event loop only answers the queries that need the slow path, which the thread leaves in
a bounded queue. It also renews the thread's lease. If the event loop hangs, there are no new plans: the thread then
answers from the last plans until the lease ends. After that, queries wait in the socket, as on the Python plane.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from collections.abc import Sequence
from functools import partial
from time import monotonic, perf_counter, time
from typing import TYPE_CHECKING, Any, Final

from lbdns import native_extension
from lbdns.answering.responder import Client, Responder
from lbdns.counting.response_times import BOUNDS, ResponseTimes
from lbdns.server.query_log.query_sampler import QueryLogTap
from lbdns.server.transport.udp import DRAIN, UdpServer

if native_extension.AVAILABLE:
    import lbdns_native

if TYPE_CHECKING:
    from lbdns_native import DatagramThread, Peer

THREAD_NAME: Final = "lbdns-udp"  # at most 15 bytes
#: s for which answers may follow the last plans of a process that hangs. A worker that hangs is then replaced
LEASE: Final = 3.0
RENEWAL: Final = 0.5  # s between renewals
LOGGING: Final = 0.05  # s between transfers of samples to the query log, whose thread pauses for as long between writes


class NativeUdpServer(UdpServer):
    """Answers the queries received on one socket with a thread of its own, from ``start`` to ``stop``."""

    def __init__(self, sock: socket.socket, responder: Responder, response_times: ResponseTimes) -> None:
        """The server takes ownership of ``sock``."""
        super().__init__(sock, responder, response_times)
        self._thread: DatagramThread | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._past = Counter[str]()  # the counters of threads that have ended
        self.slow_path = SlowPath(self)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread. Raises OSError if the process has run out of descriptors or threads."""
        self._thread = lbdns_native.DatagramThread(
            THREAD_NAME, self.sock.fileno(), *self._tables(), BOUNDS, monotonic() + LEASE
        )
        self._set_sampling()
        self._response_times.begin_source(self._times)
        loop.add_reader(self._thread.fileno(), self._drain)
        self._renew(loop)
        self._log_samples(loop)

    def stop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer the waiting queries, but no more than the receive buffer can hold, and close the socket."""
        if self._thread:
            self._thread.stop()
            loop.remove_reader(self._thread.fileno())
            while self._drain() == DRAIN:
                pass
            self._take_samples()
            for timer in self._timers.values():
                timer.cancel()
            self._response_times.end_source(self._times)
            self._past += self._thread_counters()
            self._thread = None
        self._close()

    def pause(self) -> None:
        """Wait until the thread has answered its batch. It answers no other one until ``resume`` is called."""
        if self._thread:
            self._thread.pause()

    def resume(self) -> None:
        """Answer from the current tables of the responder."""
        if self._thread:
            self._thread.resume(*self._tables())

    def tap(self, tap: QueryLogTap | None) -> None:
        super().tap(tap)
        self._set_sampling()

    def _set_sampling(self) -> None:
        if self._thread:
            self._thread.sample(self._tap.part if self._tap else 0.0, random.getrandbits(64))

    def _tables(self) -> tuple[Any, Any, Any, Any, Any]:
        responder, selector = self._responder, self._responder.selector
        return (
            responder.table.native, responder.limiter, selector.retransmissions, selector.affinity, responder.cookies,
        )  # fmt: skip

    def counters(self) -> Counter[str]:
        return super().counters() + self._past + self._thread_counters()

    @property
    def reads(self) -> int:
        return self._thread.batches if self._thread else 0

    @property
    def unsent(self) -> int:
        return self._unsent + (self._past + self._thread_counters())["unsent"]

    def _thread_counters(self) -> Counter[str]:
        if self._thread is None:
            return Counter()
        _, _, unsent, shed, failed = self._thread.figures()
        return Counter(unsent=unsent, shed=shed, failed=failed)

    def _times(self) -> tuple[Sequence[int], float]:
        assert self._thread is not None
        counts, seconds, *_ = self._thread.figures()
        return counts, seconds

    def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        """Renew the lease at intervals, as long as the event loop runs."""
        assert self._thread is not None
        self._thread.renew(monotonic() + LEASE)
        self._timers["lease"] = loop.call_later(RENEWAL, self._renew, loop)

    def _log_samples(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass samples to the query log at intervals."""
        self._take_samples()
        self._timers["samples"] = loop.call_later(LOGGING if self._tap else RENEWAL, self._log_samples, loop)

    def _take_samples(self) -> None:
        assert self._thread is not None
        if self._tap:
            samples, lost = self._thread.take_samples()
            self._tap.lose(lost)
            for sample in samples:
                self._tap.log_finished(*sample)

    def _drain(self) -> int:
        """Answer up to DRAIN queries on the slow path, and return how many there were."""
        assert self._thread is not None
        begin, now = perf_counter(), monotonic()
        self._reads += 1
        responder = self._responder
        responder.tick(now, time())
        responder.sheds = self.shedder.sheds if now < self.shedder.until else None
        waiting = self._thread.take(DRAIN)
        for query in waiting:
            self._answer_slowly(*query)
        if waiting:
            self._response_times.add(len(waiting), perf_counter() - begin)
        self._note_load(len(waiting) < DRAIN, now)
        return len(waiting)

    def _note_load(self, emptied: bool, now: float) -> None:
        super()._note_load(emptied, now)
        if self._thread and now < self.shedder.until:
            self._thread.shed_until(self.shedder.until)

    def _answer_slowly(self, query: bytes, client: Client, peer: Peer, is_sampled: bool) -> None:
        responder = self._responder
        # An earlier query in the queue may have had the same question. The thread has already shed load
        respond = responder.respond if responder.sheds is None else responder.respond_slowly
        try:
            if self._tap and is_sampled:
                response = self._tap.respond_and_log(respond, query, client)
            else:
                response = respond(query, client)
            if isinstance(response, bytes):
                self._reply_natively(peer, response)
            elif response is not None:
                self.run_deferred(response, partial(self._reply_natively, peer))
        except Exception:
            self.errors.report()

    def _reply_natively(self, peer: Peer, response: bytes) -> None:
        if self.sock.fileno() < 0 or not lbdns_native.DatagramBatch.reply(self.sock.fileno(), peer, response):
            self._unsent += 1


def udp_server(sock: socket.socket, responder: Responder, response_times: ResponseTimes) -> UdpServer:
    """Return a server for the plane of the responder's answer table. The server takes ownership of ``sock``."""
    kind = NativeUdpServer if responder.table.native else UdpServer
    return kind(sock, responder, response_times)


class SlowPath:
    """The queries of one socket that wait for the slow path, for the read watch."""

    def __init__(self, server: NativeUdpServer) -> None:
        self._server = server

    def __str__(self) -> str:
        return f"the slow path of {self._server}"

    @property
    def reads(self) -> int:
        """Return the number of times that queries have been taken."""
        return self._server._reads

    def fileno(self) -> int:
        """Return a descriptor that is readable while queries wait, or -1 if there is no thread."""
        return self._server._thread.fileno() if self._server._thread else -1
