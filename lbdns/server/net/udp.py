"""DNS over UDP: a non-blocking socket that is drained whenever the loop finds it readable."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, perf_counter, time
from typing import Final

from lbdns.answering.errand import Errand
from lbdns.answering.respond import Client, Responder
from lbdns.listening import bound_endpoint, overflows
from lbdns.server import native
from lbdns.server.net.durations import Durations
from lbdns.server.net.listen import IP_PKTINFO, WILDCARDS
from lbdns.server.net.mistakes import Mistakes
from lbdns.server.net.overload import Overload
from lbdns.server.net.query_watch import Respond, Watch

log = logging.getLogger("lbdns.server")

BATCHES: Final = 4  # of the native part a wake-up, about a millisecond
DRAIN: Final = 64  # queries a wake-up: then timers, reports and TCP have their turn
LAST_DRAINS: Final = 256  # a full receive buffer's worth, before a socket is closed
MAX_QUERY: Final = 4096  # bytes read of a datagram; no query is that long, and one that is gets FORMERR
_ANCILLARY: Final = 64  # bytes: room for one packet info of either family
_Info = list[tuple[int, int, bytes]]
Reply = Callable[[bytes], None]


class UdpServer:
    """Answers the queries of one socket."""

    def __init__(self, sock: socket.socket, responder: Responder, durations: Durations) -> None:
        self.sock = sock
        self.endpoint = bound_endpoint(sock)
        self.unsent = 0  # responses the kernel would not take
        self._overflows = -overflows(sock)  # of this server: others may have had the socket before
        self._closed = False
        self.mistakes = Mistakes()
        self.overload = Overload()
        self._responder = responder
        self._respond: Respond = responder.respond
        self._watch: Watch | None = None
        self._durations = durations
        self._answer_waiting = self._answer_any if self.endpoint.host in WILDCARDS else self._answer_one
        if responder.table.compiled is not None:
            self._batch = native.new_batch()
            self._answer_waiting = self._answer_natively
        self._most = DRAIN if responder.table.compiled is None else BATCHES * native.BATCH
        self._reply_from = _from_ipv6 if sock.family == socket.AF_INET6 else _from_ipv4
        #: Whoever runs errands: gets the errand and what sends the response.
        self.run_errand: Callable[[Errand, Reply], None] = _nobody

    def watch_by(self, watch: Watch | None) -> None:
        """Have ``watch`` take queries for the query log; None: nobody. Errands are run by it then, too."""
        self._watch = watch
        self._respond = watch.respond if watch else self._responder.respond
        if self._responder.table.compiled is not None:
            self._batch.sample(watch.sampler.part if watch else 0.0, random.getrandbits(64))

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self.sock, self._drain)

    def stop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the socket; what was waiting in it is still answered, but not for ever what goes on coming."""
        loop.remove_reader(self.sock)
        for _ in range(LAST_DRAINS):
            if self._drain() < self._most:
                break
        self._overflows, self._closed = self.overflows, True
        self.sock.close()

    @property
    def overflows(self) -> int:
        """Queries the kernel dropped because the receive buffer was full."""
        return self._overflows if self._closed else self._overflows + overflows(self.sock)

    def _drain(self) -> int:
        """Answer what has arrived, at most so many queries that others have their turn. How many it were."""
        begin, now = perf_counter(), monotonic()
        responder = self._responder
        responder.tick(now, time())
        responder.sheds = self.overload.sheds if self.overload.begin(now) else None
        queries = self._answer_waiting()
        if queries:
            self._durations.add(queries, perf_counter() - begin)
        self.overload.note(queries < self._most, now)
        return queries

    def _answer_one(self) -> int:
        """On a socket that is bound to one address."""
        receive, send, respond = self.sock.recvfrom, self.sock.sendto, self._respond
        for queries in range(DRAIN):
            try:
                query, client = receive(MAX_QUERY)
            except OSError as error:
                return queries if isinstance(error, BlockingIOError) else self._unread(error, queries)
            try:
                response = respond(query, client)
                if isinstance(response, bytes):
                    send(response, client)
                elif response is not None:
                    self.run_errand(response, partial(self._reply, client, None))
            except OSError:
                self.unsent += 1
            except Exception:
                self.mistakes.report()
        return DRAIN

    def _answer_any(self) -> int:
        """On a socket bound to every address: each answer leaves from the one that was asked."""
        receive, send, respond = self.sock.recvmsg, self.sock.sendmsg, self._respond
        for queries in range(DRAIN):
            try:
                query, info, _, client = receive(MAX_QUERY, _ANCILLARY)
            except OSError as error:
                return queries if isinstance(error, BlockingIOError) else self._unread(error, queries)
            try:
                response = respond(query, client)
                if isinstance(response, bytes):
                    send((response,), self._reply_from(info), 0, client)
                elif response is not None:
                    self.run_errand(response, partial(self._reply, client, self._reply_from(info)))
            except OSError:
                self.unsent += 1
            except Exception:
                self.mistakes.report()
        return DRAIN

    def _answer_natively(self) -> int:
        """By the native part, which sends what it answers; what it leaves aside takes the long way."""
        responder, batch, fd = self._responder, self._batch, self.sock.fileno()
        queries = 0
        for _ in range(BATCHES):
            try:
                read, unsent, shed, asides = batch.drain(
                    fd, responder.table.compiled, responder.limiter, responder.recent, responder.coherence,
                    responder.cookies, responder.now, responder.wall, responder.sheds is not None,
                )  # fmt: skip
            except OSError as error:
                return self._unread(error, queries)
            self.unsent += unsent
            self.overload.shed += shed
            taken = self._take_samples(self._watch) if self._watch else ()
            for number, (query, client, peer) in enumerate(asides):
                self._answer_aside(query, client, peer, number in taken)
            queries += read
            if read < native.BATCH:
                break
        return queries

    def _take_samples(self, watch: Watch) -> Sequence[int]:
        """Those of the last batch that are done with; which of those left aside are taken is returned."""
        samples, taken = self._batch.take_samples()
        for sample in samples:
            watch.told(*sample)
        return taken

    def _answer_aside(self, query: bytes, client: Client, peer: native.Peer, is_taken: bool) -> None:
        respond = self._responder.respond_at_length
        try:
            if self._watch and is_taken:
                response = self._watch.noted(respond, query, client)
            else:
                response = respond(query, client)
            if isinstance(response, bytes):
                self._reply_natively(peer, response)
            elif response is not None:
                self.run_errand(response, partial(self._reply_natively, peer))
        except Exception:
            self.mistakes.report()

    def _reply_natively(self, peer: native.Peer, response: bytes) -> None:
        if self.sock.fileno() < 0 or not self._batch.reply(self.sock.fileno(), peer, response):
            self.unsent += 1

    def _unread(self, error: OSError, queries: int) -> int:
        log.debug("%s: reading queries: %s", self.endpoint, error)
        return queries

    def _reply(self, client: Client, info: _Info | None, response: bytes) -> None:
        """Send the response to a query of before, if the socket is still there."""
        try:
            if info is None:
                self.sock.sendto(response, client)
            else:
                self.sock.sendmsg((response,), info, 0, client)
        except OSError:
            self.unsent += 1


def _nobody(errand: Errand, reply: Reply) -> None:
    """Without anybody who runs errands the client hears nothing."""


def _from_ipv4(info: _Info) -> _Info:
    """The ancillary data that sends from the address a datagram came to: its interface is left to the routes."""
    return [(level, kind, b"\0\0\0\0" + data[4:8] + b"\0\0\0\0") for level, kind, data in info if kind == IP_PKTINFO]


def _from_ipv6(info: _Info) -> _Info:
    """The same for IPv6, where a link-local address means nothing without its interface."""
    return [(level, kind, data) for level, kind, data in info if kind == socket.IPV6_PKTINFO]
