"""Taking some of the queries of one socket for the query log, without holding up any of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter, time

from lbdns.answering.entry import UDP
from lbdns.answering.errand import Errand, Transfer
from lbdns.answering.respond import Client
from lbdns.server.net.query_line import Sample

Reply = Callable[[bytes], None]
Respond = Callable[..., bytes | Errand | None]  # query, client, and over TCP the transport
RunErrand = Callable[[Errand, Reply], None]


class Sampler:
    """Takes a part of all queries by chance, each with the same probability: the gaps between them are geometric, so
    that no period in the queries matters."""

    def __init__(self, part: float, chance: Callable[[], float]) -> None:
        """``part`` is above 0 and at most 1; ``chance`` gives numbers from 0 to below 1."""
        self.part = part
        self.chance = chance
        self._scale = math.log1p(-part) if part < 1 else -math.inf

    def gap(self) -> int:
        """How many queries are not taken before one is."""
        return int(math.log(1.0 - self.chance()) / self._scale)  # by the inverse of the distribution


class Watch:
    """Stands between one socket and who answers. ``take`` gets what was taken."""

    def __init__(
        self, respond: Respond, run_errand: RunErrand, sampler: Sampler, take: Callable[[Sample], None]
    ) -> None:
        self._respond, self._run_errand = respond, run_errand
        self.sampler = sampler
        self._take = take
        self._pause = sampler.gap()
        self._errand: tuple[Errand, Callable[[bytes], None]] | None = None  # taken, and who notes the response

    def respond(self, query: bytes, client: Client, transport: int = UDP) -> bytes | Errand | None:
        """As the responder does it."""
        if self._pause:
            self._pause -= 1
            return self._respond(query, client, transport)
        self._pause = self.sampler.gap()
        return self.noted(self._respond, query, client, transport)

    def noted(self, respond: Respond, query: bytes, client: Client, transport: int = UDP) -> bytes | Errand | None:
        """What ``respond`` responds, of a query that is taken."""
        begin = perf_counter()
        response = respond(query, client, transport)
        seconds = perf_counter() - begin
        if isinstance(response, bytes | None):
            self._take(Sample(time(), client, transport, query, response, False, seconds))
        elif isinstance(response, Transfer):
            self._take(Sample(time(), client, transport, query, None, True, None))
        else:
            asked = time()
            self._errand = (
                response,
                lambda answer: self._take(Sample(asked, client, transport, query, answer, False, None)),
            )
        return response

    def run_errand(self, errand: Errand, reply: Reply) -> None:
        """As whoever runs them does it; called for an errand before another query is answered."""
        taken, self._errand = self._errand, None
        if taken is None or taken[0] is not errand:
            self._run_errand(errand, reply)
            return
        note = taken[1]

        def noting(response: bytes) -> None:
            note(response)
            reply(response)

        self._run_errand(errand, noting)

    def told(self, query: bytes, client: Client, response: bytes | None, seconds: float) -> None:
        """Of a query over UDP that somebody else took and answered."""
        self._take(Sample(time(), client, UDP, query, response, False, seconds))
