"""One query -> one response, or None: the short way by a compiled table, the long way by reading and looking up. Pure.

Short way: the question's bytes in lower case find an entry, the bytes around it the kind of response; two look-ups,
the member whose turn it is, and the parts joined. Whatever is not usual takes the long way, which gives the same
answers, and makes what the short way finds next time.

Nothing moves a rotation but a response that names a member: not a query that arrives again, nor the second type that
one client asks for, nor a query over the rate limit, nor an answer that is too long and says "ask over TCP".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from lbdns.answering.constants import RD, TRANSFER_TYPES, Rcode, Type
from lbdns.answering.edns import LEAST_PAYLOAD, Edns
from lbdns.answering.entry import TCP, TRANSPORTS, UDP, Entry, assemble, truncated
from lbdns.answering.errand import Errand, Relay, Transfer
from lbdns.answering.explain_txt import Explainer, Explanations
from lbdns.answering.finished import finished
from lbdns.answering.fixed import NOTHING, fixed_answer, said
from lbdns.answering.message import Answer, Body, write
from lbdns.answering.options import NONE, Options, answer_options
from lbdns.answering.query import Query, read_query
from lbdns.answering.relay import Allowed
from lbdns.answering.table import Table
from lbdns.answering.tsig import check, rcode_of
from lbdns.answering.ways import (
    COOKIE_AT,
    COOKIE_WAYS,
    WAYS,
    ends_with_cookie,
    has_cookie,
    way_of,
)

MAX_TCP: Final = 65_535  # bytes

#: Who asks: host, port and what else the socket says of an address.
Client = tuple[Any, ...]


class Responder:
    """Answers queries from a table that can be swapped at any time.

    ``now`` (monotonic seconds) and ``wall`` (Unix seconds) are told by whoever holds the sockets, through ``tick``.
    """

    __slots__ = (
        "_before", "_explanations", "allowed", "coherence", "cookies", "cut", "explainer", "limiter", "now", "recent",
        "sheds", "table", "wall",
    )  # fmt: skip

    def __init__(self, table: Table, secrets: Sequence[bytes] = (), share: int = 1) -> None:
        self.now = self.wall = 0.0
        #: While there is more to do than can be done: whether the next query that would take the long way is left
        #: unanswered.
        self.sheds: Callable[[], bool] | None = None
        #: Tells why a name is answered as it is; without it nobody is told.
        self.explainer: Explainer | None = None
        self.cut = 0  # responses that did not fit and said "ask over TCP"
        self._before = dict.fromkeys(("rate_limit_dropped", "rate_limit_cut", "repeated", "coherent"), 0)
        self.limiter, self.recent = table.plane.limits(table.farm.config.rate_limit, share), table.plane.repeats()
        self.coherence = table.plane.joins()
        self.use(table, secrets, share)

    def use(self, table: Table, secrets: Sequence[bytes] = (), share: int = 1) -> None:
        """Answer from ``table`` from now on. ``secrets`` are for cookies (without any there are none), the first makes
        them; ``share`` is the number of processes that answer at these addresses."""
        self.table = table
        self._before = self._shared_counters()
        self.cookies = table.plane.cookies(secrets) if secrets else None
        self.allowed = Allowed(table.farm.config.forward.allow)
        self._explanations = Explanations(table.farm)
        self.recent = table.plane.repeats()  # the members it knew may be others now
        self.coherence = table.plane.joins()
        self.limiter = table.plane.limits(table.farm.config.rate_limit, share)
        self.limiter.tick(self.now)

    def tick(self, now: float, wall: float) -> None:
        """The time of what is asked from now on."""
        self.now, self.wall = now, wall
        self.limiter.tick(now)

    def counters(self) -> dict[str, int]:
        """What happened so far that the counts of queries don't tell."""
        return {
            **self._shared_counters(),
            "too_long_cut": self.cut,
        }

    def _shared_counters(self) -> dict[str, int]:
        """Of what is begun anew at every reload."""
        now = (self.limiter.dropped, self.limiter.cut, self.recent.repeated, self.coherence.coherent)
        return {name: before + count for (name, before), count in zip(self._before.items(), now, strict=True)}

    def respond(self, query: bytes, client: Client, transport: int = UDP) -> bytes | Errand | None:
        """The response to ``query`` over ``transport`` (UDP or TCP, without the length), an errand that leads to it,
        or None for no answer."""
        end = query.find(0, 12) + 5
        entry = self.table.entries.get(query[12:end].lower())
        if entry is not None:
            kind = WAYS.get(query[2:12] + query[end:])
            cookie: bytes = b""
            known: bool | int = transport  # over TCP nobody pretends to be another
            if kind is None and self.cookies is not None and ends_with_cookie(query, end):
                kind = COOKIE_WAYS.get(query[2:12] + query[end : end + COOKIE_AT])
                if kind is not None:
                    cookie, valid = self.cookies.answer(query[end + COOKIE_AT :], client[0], self.wall)
                    known = known or valid
            variants = entry.variants[kind] if kind is not None else None
            if variants:
                if not known and (over := self.limiter.count(client[0], entry.key)):
                    return self._over_limit(query, client, over)
                head, tail = variants[0 if entry.handout is None else self._member(entry, query, client, transport)]
                entry.asked[transport] += 1
                return b"".join((query[:2], head, query[12:end], tail, cookie))
        if self.sheds is not None and transport == UDP and self.sheds():
            return None
        return self.respond_at_length(query, client, transport)

    def _member(self, entry: Entry, query: bytes, client: Client, transport: int) -> int:
        """Hand out a member; the one from before if the datagram was there before, or another type of this client."""
        handout, which = entry.handout, entry.together
        assert handout is not None
        if transport == TCP:
            return handout.next() if which is None else self.coherence.give(handout, client[0], which, self.now)
        mark = self.recent.mark(client[0], client[1], query)
        member = self.recent.member(mark, self.now)
        # One that can't be handed out any more is no answer, also not to who asked before
        if member is not None and member in handout.usable:
            self.recent.repeated += 1
            return member
        member = handout.next() if which is None else self.coherence.give(handout, client[0], which, self.now)
        self.recent.note(mark, member, self.now)
        return member

    def _due(self, entry: Entry, query: bytes, client: Client, transport: int) -> int:
        """The member that ``_member`` would give; nothing moves."""
        handout = entry.handout
        if handout is None:
            return 0
        member = None
        if transport == UDP:
            member = self.recent.member(self.recent.mark(client[0], client[1], query), self.now)
        if entry.together is not None and member not in handout.usable:
            mark = self.coherence.mark(client[0], handout.number)
            member = self.coherence.member(mark, entry.together, self.now - handout.coherence)
        return member if member is not None and member in handout.usable else handout.due

    def _over_limit(self, message: bytes, client: Client, over: int) -> bytes | None:
        """The response to a usual query over the limit, if there is one: ask over TCP, or with a cookie."""
        query = read_query(message)
        if query is None or self.limiter.drops(over, client[0]):
            return None
        options = self._options(query, client, UDP)
        return self._join(query, truncated(NOTHING), options)

    def respond_at_length(self, message: bytes, client: Client, transport: int = UDP) -> bytes | Errand | None:
        """The response as ``respond`` gives it, without a look at what is compiled."""
        query = read_query(message)
        if query is None:
            return None
        if query.tsig_at:
            signed = check(message, query.tsig_at, self.table.keys, self.wall)
            query = replace(query, signed=signed, error=query.error or rcode_of(signed))
        options = self._options(query, client, transport)
        known = transport == TCP or options.valid_cookie
        fixed = fixed_answer(query, options, self.table.farm.config.server)
        if not fixed and query.qtype in TRANSFER_TYPES:
            return self._transfer(query, options, client, transport)
        index = None if fixed else self.table.zone_of(query.qname, query.qtype)
        if index is None:
            if fixed is None and self._relays(query, client):
                return Relay(query, client[0], transport, options)
            body, rcode = fixed or (said(Rcode.REFUSED), Rcode.REFUSED)
            if not known and (over := self.limiter.count(client[0], _kind("", rcode))):
                return self._cut(query, options, body, client, over)
            self.table.count(("", query.qtype, TRANSPORTS[transport], rcode))
            return self._join(query, body, options, rcode)
        explanation = self._explanations.entry(index, query, client[0], self.explainer)
        entry = explanation or self.table.entry(index, query.qname, query.qtype)
        if entry.way_out and self._relays(query, client):
            return Relay(query, client[0], transport, options, entry.zone, entry.way_out)
        kind = entry.key if entry.kept else _kind(entry.zone, entry.rcode)
        if not known and (over := self.limiter.count(client[0], kind)):
            return self._cut(query, options, NOTHING, client, over)  # as the short way has it
        self._count(entry, transport)
        if entry.kept:
            self._compile(entry, message, query)
        return self._answer(entry, message, query, options, client, transport)

    def _transfer(self, query: Query, options: Options, client: Client, transport: int) -> bytes | Errand | None:
        """A zone's messages, or what the query for them is answered with otherwise."""
        index = self.table.zone_of(query.qname, Type.SOA)
        zone = index.zone.name if index else ""
        signed = query.signed
        key = signed.key_name if signed else ""
        host = client[0]
        found = self.table.transfers.answer(query, index.zone, host, key, transport) if index else Rcode.REFUSED
        self.table.count((zone, query.qtype, TRANSPORTS[transport], found if isinstance(found, Rcode) else 0))
        if not isinstance(found, Rcode | Answer):
            return Transfer(signed.sign_all(found, lambda: self.wall) if signed else found, zone)
        body = said(found) if isinstance(found, Rcode) else write(found, query.qname)
        known = transport == TCP or options.valid_cookie
        if not known and (over := self.limiter.count(host, _kind(zone, body.flags & 0xF))):
            return self._cut(query, options, body, client, over)
        return self._join(query, body, options)

    def _relays(self, query: Query, client: Client) -> bool:
        """Whether this client is answered by an upstream what our zones can't answer."""
        return bool(query.flags & RD) and not query.tsig_at and self.allowed.has(client[0])

    def hand_back(self, relay: Relay, body: Body) -> bytes:
        """The response to a relayed query, cut if it is longer than the client takes. No cookie is asked for: who is
        allowed is not somebody to be flooded through us."""
        query = relay.query
        self.table.count((relay.zone, query.qtype, TRANSPORTS[relay.transport], body.flags & 0xF))
        response = self._join(query, body, relay.options)
        if len(response) <= (MAX_TCP if relay.transport == TCP else self._payload(query.edns)):
            return response
        self.cut += 1
        return self._join(query, truncated(body), relay.options)

    def _options(self, query: Query, client: Client, transport: int) -> Options:
        if query.edns is None or query.error == Rcode.FORMERR:
            return NONE
        identity = self.table.farm.config.server.identity.encode()
        return answer_options(query.edns, client[0], transport == TCP, identity, self.cookies, self.wall)

    def _count(self, entry: Entry, transport: int) -> None:
        if entry.kept:
            entry.asked[transport] += 1
        else:
            self.table.count((entry.zone, entry.qtype, TRANSPORTS[transport], entry.rcode))

    def _compile(self, entry: Entry, message: bytes, query: Query) -> None:
        """Make what the short way will find for the next query of this kind."""
        kind = way_of(message[2:12] + message[12 + len(query.question) :])
        if entry.way_out and self.allowed:
            return  # who asks decides whether it is the whole answer
        if kind is None or entry.variants[kind] is not None or (has_cookie(kind) and self.cookies is None):
            return
        payload = self.table.farm.config.server.payload
        self.table.keep(entry, kind, finished(entry, query, has_cookie(kind), payload))

    def _answer(
        self, entry: Entry, message: bytes, query: Query, options: Options, client: Client, transport: int
    ) -> bytes:
        """The whole answer if the client takes one so long, else "ask over TCP"; glue is no reason to spare it
        (RFC 9471)."""
        limit = MAX_TCP if transport == TCP else self._limit(query.edns, options)
        body = entry.body(self._due(entry, message, client, transport))
        response = self._join(query, body, options)
        if len(response) > limit:
            self.cut += 1
            return self._join(query, truncated(body), options)
        if entry.handout is not None:
            self._member(entry, message, client, transport)
        return response

    def _limit(self, edns: Edns | None, options: Options) -> int:
        """The longest response over UDP, in bytes."""
        limit = self._payload(edns)
        if self.cookies is None or options.valid_cookie:
            return limit
        return min(limit, self.table.farm.config.cookies.udp_without)

    def _payload(self, edns: Edns | None) -> int:
        """What the client and we take over UDP, in bytes."""
        return min(max(LEAST_PAYLOAD, edns.payload), self.table.farm.config.server.payload) if edns else LEAST_PAYLOAD

    def _cut(self, query: Query, options: Options, body: Body, client: Client, over: int) -> bytes | None:
        """The response that is ``over`` the rate limit, if there is one."""
        if self.limiter.drops(over, client[0]):
            return None
        return self._join(query, truncated(body), options)

    def _join(self, query: Query, body: Body, options: Options, rcode: Rcode | None = None) -> bytes:
        payload = self.table.farm.config.server.payload
        head, tail = assemble(body, query.flags, query.edns, rcode, payload, options.written)
        if not query.question:
            head = head[:2] + b"\0\0" + head[4:]  # no sound question to echo, none counted
        response = b"".join((query.id, head, query.question, tail))
        return query.signed.sign(response, self.wall) if query.signed else response


def _kind(zone: str, rcode: int) -> bytes:
    """What responses are alike that are not compiled."""
    return b"%s %d" % (zone.encode(), rcode)
