"""The query sampler: selects a random fraction of one socket's queries for the query log, without delaying queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter, time

from lbdns.answering.dns_constants import UDP
from lbdns.answering.responder import Client, DeferredAnswer
from lbdns.answering.zone_transfer import ZoneTransfer
from lbdns.server.query_log.query_line import LoggedQuery

Reply = Callable[[bytes], None]
Respond = Callable[..., bytes | DeferredAnswer | None]  # query, client, and over TCP the transport
RunDeferred = Callable[[DeferredAnswer, Reply], None]  # calls ``Reply`` with the response


def next_gap(part: float, chance: float) -> int:
    """Return how many queries to skip before the next sample.

    ``part`` is the fraction of queries to sample (0 < part <= 1).

    The number of skipped queries has a geometric distribution, so that patterns in the queries cannot bias the samples.
    ``chance`` is a random number in [0, 1).
    """
    return int(math.log(1.0 - chance) / math.log1p(-part)) if part < 1 else 0  # inverse transform sampling


class QueryLogTap:
    """Wraps the responder functions of one socket, and passes each sampled query and its response to ``take``.

    The caller must use the tap's ``respond`` and ``run_deferred`` instead of the functions passed to the constructor.
    """

    def __init__(
        self,
        respond: Respond,
        run_deferred: RunDeferred,
        part: float,
        chance: Callable[[], float],
        take: Callable[[LoggedQuery], None],
        lose: Callable[[int], None] = lambda count: None,
    ) -> None:
        """``part`` is the fraction of queries to sample; ``chance`` returns random numbers in [0, 1). ``lose`` counts
        samples that are lost before they could be taken."""
        self._respond, self._run_deferred, self._take = respond, run_deferred, take
        self.part, self._chance, self.lose = part, chance, lose
        self._gap = next_gap(part, chance())
        #: A sampled query whose answer is deferred, and the function that logs its response
        self._deferred: tuple[DeferredAnswer, Callable[[bytes], None]] | None = None

    def respond(self, query: bytes, client: Client, transport: int = UDP) -> bytes | DeferredAnswer | None:
        """Respond as ``Responder.respond`` does, and log the query if it is sampled."""
        if self._gap:
            self._gap -= 1
            return self._respond(query, client, transport)
        self._gap = next_gap(self.part, self._chance())
        return self.respond_and_log(self._respond, query, client, transport)

    def respond_and_log(
        self, respond: Respond, query: bytes, client: Client, transport: int = UDP
    ) -> bytes | DeferredAnswer | None:
        """Return the result of ``respond``, and log the query with its response."""
        begin = perf_counter()
        response = respond(query, client, transport)
        seconds = perf_counter() - begin
        if isinstance(response, bytes | None):
            self._take(LoggedQuery(time(), client, transport, query, response, False, seconds))
        elif isinstance(response, ZoneTransfer):
            self._take(LoggedQuery(time(), client, transport, query, None, True, None))
        else:
            begun = time()
            self._deferred = (
                response,
                lambda answer: self._take(LoggedQuery(begun, client, transport, query, answer, False, None)),
            )
        return response

    def run_deferred(self, deferred: DeferredAnswer, reply: Reply) -> None:
        """Run a deferred answer; log the response if the query was sampled.

        Call this method before the next ``respond`` call.
        """
        sampled, self._deferred = self._deferred, None
        if sampled is None or sampled[0] is not deferred:
            self._run_deferred(deferred, reply)
            return
        log_response = sampled[1]

        def log_and_reply(response: bytes) -> None:
            log_response(response)
            reply(response)

        self._run_deferred(deferred, log_and_reply)

    def log_finished(self, wall: float, query: bytes, client: Client, response: bytes | None, seconds: float) -> None:
        """Log a UDP query that the native plane sampled, and answered at the time ``wall`` in Unix seconds."""
        self._take(LoggedQuery(wall, client, UDP, query, response, False, seconds))
