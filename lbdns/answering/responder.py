"""The responder: turns one query into one response, via the fast path or the slow path. Sans-I/O.

On the fast path, the lower-cased bytes of the question identify an entry of the answer table, and the bytes around the
question determine the response kind. The responder then selects a member, and joins the precompiled parts of the
response. Every other query takes the slow path, which consists of a strict reader, a zone lookup and a message writer.
The slow path produces the same answers, and precompiles them for the fast path.

A rotation advances only when a new response names a member. It does not advance in four cases: a retransmitted query, a
client's query for another type of the same name, a query over the rate limit, and a response that is truncated because
it is too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from lbdns.answering.answer_table import AnswerEntry, AnswerTable
from lbdns.answering.dns_constants import (
    CLASS_IN,
    MAX_TCP_MESSAGE,
    META_TYPES,
    RD,
    TCP,
    TRANSPORTS,
    UDP,
    Rcode,
    Type,
)  # fmt: skip
from lbdns.answering.edns import NO_OPTIONS, SCOPE_AT, EdnsOptions, answer_options
from lbdns.answering.error_responses import error_response
from lbdns.answering.explain_txt import LABEL, Explainer, ExplanationNames
from lbdns.answering.message_writer import (
    EMPTY_BODY,
    AnswerSections,
    ResponseBody,
    ResponseWriter,
    truncated,
    without_records,
    write_body,
)  # fmt: skip
from lbdns.answering.query_reader import Query, read_query
from lbdns.answering.query_shapes import (
    COOKIE_AT,
    COOKIE_ENDS,
    COOKIE_QUERY_SHAPES,
    FIRST_COOKIE_KIND,
    OPTIONS_LENGTH_AT,
    QUERY_SHAPES,
    has_subnet_first,
    subnet_kind,
)  # fmt: skip
from lbdns.answering.relayed_query import AllowedNetworks, RelayedQuery
from lbdns.answering.tsig import check_signature, rcode_of
from lbdns.answering.zone_transfer import ZoneTransfer

#: A client's address as sockets return it: host, port, and for IPv6 flow and scope.
Client = tuple[Any, ...]
#: An answer that requires many messages or an upstream; the caller of ``Responder.respond`` must complete it.
DeferredAnswer = ZoneTransfer | RelayedQuery
_SUBNET_AT: Final = COOKIE_AT - OPTIONS_LENGTH_AT  # bytes from the length of options to the data of the first one
_SCOPE_AT: Final = _SUBNET_AT + SCOPE_AT
#: Types that a zone lookup can't answer. OPT is not a meta-type in the registry, but is just as invalid in a question.
_UNUSUAL_TYPES: Final = META_TYPES | {Type.OPT}


class Responder:
    """Answers queries using one answer table. The caller owns the sockets and reads the clock.

    The caller must

    - call ``tick`` before ``respond`` whenever it wakes up to read queries;
    - pass each message that it receives to ``respond``;
    - send the response that ``respond`` returns, or drop the response if sending fails, because clients repeat queries;
    - complete a deferred answer: send every message of a ``ZoneTransfer`` over its TCP connection, or get the
      upstream's answer to a ``RelayedQuery``, pass the answer to ``finish_relayed``, and send the result;
    - call ``use`` for each new configuration.

    One responder, in one thread, serves all sockets of a process.
    """

    __slots__ = (
        "_before", "_explanations", "_writer", "allowed", "cookies", "explainer", "limiter", "now",
        "selector", "sheds", "table", "truncated", "wall",
    )  # fmt: skip

    def __init__(self, table: AnswerTable, secrets: Sequence[bytes] = (), share: int = 1) -> None:
        """Create a responder. The arguments are those of the method ``use``."""
        self.now = self.wall = 0.0
        #: Set only while a socket is overloaded. Returns whether to drop the next query that would take the slow path.
        self.sheds: Callable[[], bool] | None = None
        #: Explains the answers for ``explain.NAME TXT``; if it is None, that name does not exist.
        self.explainer: Explainer | None = None
        self.truncated = 0  # responses that were too long for their client
        self._before = dict.fromkeys(("rate_limit_dropped", "rate_limit_cut", "repeated", "coherent"), 0)
        self.limiter = table.plane.rate_limiter(table.farm.config.rate_limit, share)
        self.selector = table.plane.member_selector()
        self.use(table, secrets, share)

    def use(self, table: AnswerTable, secrets: Sequence[bytes] = (), share: int = 1) -> None:
        """Switch to answering from ``table``. To continue the old table's counters, call ``table.take_over`` first.

        Server cookies made with any of ``secrets`` (16 bytes each) are valid; new cookies are made with the first
        secret. Without secrets, the server uses no cookies. ``share`` is the number of processes that answer queries to
        the same addresses; each process enforces an equal fraction of the rate limit.
        """
        config = table.farm.config
        self._before = self._counters_since_start()
        self.table = table
        self.cookies = table.plane.cookie_jar(secrets) if secrets else None
        without_cookie = config.cookies.udp_without if secrets else MAX_TCP_MESSAGE
        self._writer = ResponseWriter(config.server.payload, without_cookie)
        self.allowed = AllowedNetworks(config.forward.allow)
        self._explanations = ExplanationNames(table.farm)
        self.selector = table.plane.member_selector()  # a new one: indexes of members may have changed
        self.selector.now = self.now
        self.limiter = table.plane.rate_limiter(config.rate_limit, share)
        self.limiter.tick(self.now)

    def tick(self, now: float, wall: float) -> None:
        """Set the time for the following queries. ``now`` is in monotonic seconds, and ``wall`` is in Unix seconds.

        Call this method on each wake-up, before ``respond``. The times may be a few milliseconds old.
        """
        self.now, self.wall = now, wall
        self.selector.now = now
        self.limiter.tick(now)

    def counters(self) -> dict[str, int]:
        """Return the response counters since the start, keyed by name. Reloads do not reset the counters."""
        return {**self._counters_since_start(), "too_long_cut": self.truncated}

    def _counters_since_start(self) -> dict[str, int]:
        """Return the counters of the limiter and the selector. The objects that ``use`` has replaced are included."""
        limiter, selector = self.limiter, self.selector
        now = (limiter.dropped, limiter.cut, selector.retransmissions.repeated, selector.affinity.coherent)
        return {name: before + count for (name, before), count in zip(self._before.items(), now, strict=True)}

    def respond(self, query: bytes, client: Client, transport: int = UDP) -> bytes | DeferredAnswer | None:
        """Return the response to the message ``query`` from ``client``, via the fast path if possible.

        Call ``tick`` first. After the call, send the returned bytes to ``client``, or complete the ``DeferredAnswer``;
        if the result is None, send nothing. ``transport`` is UDP or TCP; messages have no length prefix. ``query`` may
        be any bytes: the result is FORMERR for a malformed query, and None for a message that can't be a query. The
        method raises no exception.
        """
        end = query.find(0, 12) + 5
        entry = self.table.entries.get(query[12:end].lower())
        if entry is not None:
            kind = QUERY_SHAPES.get(query[2:12] + query[end:])
            options: bytes = b""  # what follows the precompiled tail
            cut: int | None = None  # where the precompiled tail ends
            known: bool | int = transport  # a TCP client can't forge its address
            if kind is None and self.cookies is not None:
                after = len(query) - end
                # A shape ends with the length of the COOKIE option; check that exactly that many bytes follow
                if after in COOKIE_ENDS and query[end + COOKIE_AT - 1] == after - COOKIE_AT:
                    kind = COOKIE_QUERY_SHAPES.get(query[2:12] + query[end : end + COOKIE_AT])
                    if kind is not None:
                        options, valid = self.cookies.answer(query[end + COOKIE_AT :], client[0], self.wall)
                        known = known or valid
            if kind is None and has_subnet_first(query, end):
                kind = subnet_kind(query[2:12], query[end:])
                # In place of the length 0 of the options, at the end of a tail without options
                cut, options = -2, query[end + OPTIONS_LENGTH_AT :]
            if entry.client_orders is not None and kind is not None:
                # Options that replace part of the tail are a client subnet, which may be malformed if there is no kind
                entry, options = _for_client(entry, client, options, cut is not None)
            variants = entry.variants[kind] if kind is not None else None
            if variants:
                if not known and (over := self.limiter.count(client[0], entry.key)):
                    return self._limit_usual(query, client, over)
                cursor, family = entry.cursor, entry.family
                member = 0 if cursor is None else self.selector.select(cursor, family, query, client, transport)
                head, tail = variants[member]
                entry.queries[transport] += 1
                return b"".join((query[:2], head, query[12:end], tail[:cut], options))
        if self.sheds is not None and transport == UDP and self.sheds():
            return None
        return self.respond_slowly(query, client, transport)

    def respond_slowly(self, message: bytes, client: Client, transport: int = UDP) -> bytes | DeferredAnswer | None:
        """Return the same response as ``respond``, but via the slow path, and precompile it for the fast path.

        Call ``tick`` first, as for ``respond``. On the native plane, this method handles the queries that native code
        leaves to Python.
        """
        query = read_query(message)
        if query is None:
            return None
        if query.tsig_at:
            signature = check_signature(message, query.tsig_at, self.table.keys, self.wall)
            query = replace(query, signature=signature, error=query.error or rcode_of(signature))
        options = self._options(query, client, transport)
        if (
            query.error
            or not options.sound
            or not query.question
            or query.qclass != CLASS_IN
            or query.qtype in _UNUSUAL_TYPES
        ):
            error = error_response(query, options, self.table.farm.config.server)
            if error:
                return self._refuse(query, *error, options, client, transport)
            return self._transfer(query, options, client, transport)
        index = self.table.zone_of(query.qname, query.qtype)
        if index is None:
            if self._relays(query, client):
                return RelayedQuery(query, client[0], transport, options)
            return self._refuse(query, without_records(Rcode.REFUSED), Rcode.REFUSED, options, client, transport)
        entry: AnswerEntry | None = None
        if self.explainer is not None and query.qname.startswith(LABEL):
            entry = self._explanations.entry(index, query, client[0], self.explainer)
            if entry is not None and not self._explanations.may_explain(self.now):
                return self._refuse(query, without_records(Rcode.REFUSED), Rcode.REFUSED, options, client, transport)
        entry = entry or self.table.entry(index, query.qname, query.qtype)
        entry, scope = entry.for_client(client[0], options.subnet)
        options = options.with_scope(scope)
        if entry.external_aliases and self._relays(query, client):
            return RelayedQuery(query, client[0], transport, options, entry.zone, entry.external_aliases)
        return self._answer(entry, message, query, options, client, transport)

    def _answer(
        self, entry: AnswerEntry, message: bytes, query: Query, options: EdnsOptions, client: Client, transport: int
    ) -> bytes | None:
        """Return the complete or truncated response, or None if rate limiting drops the response.

        Glue is always sent (RFC 9471).
        """
        if over := self._over_limit(options, client, transport, entry.key if entry.kept else _kind(entry)):
            return self._limit(query, EMPTY_BODY, options, client, over)
        if entry.kept:
            entry.queries[transport] += 1
            self._precompile(entry, message, query)
        else:
            self.table.count((entry.zone, entry.qtype, TRANSPORTS[transport], entry.rcode))
        cursor, family = entry.cursor, entry.family
        member = 0 if cursor is None else self.selector.due(cursor, family, message, client, transport)
        response, whole = self._fit(entry.body(member), query, options, transport)
        if cursor is not None and whole:
            selected = self.selector.select(cursor, family, message, client, transport)
            if not cursor.is_same(selected, member):  # native code has selected the due member in the meantime
                response, whole = self._fit(entry.body(selected), query, options, transport)
        self.truncated += not whole
        return response

    def _fit(self, body: ResponseBody, query: Query, options: EdnsOptions, transport: int) -> tuple[bytes, bool]:
        """Return two values: the response, truncated if it is too long for the client, and whether it is whole."""
        limit = self._writer.limit(query, options, transport)
        response = self._writer.write_within(limit, query, body, options, self.wall)
        if response is None:
            return self._writer.write(query, truncated(body), options, self.wall), False
        return response, True

    def _precompile(self, entry: AnswerEntry, message: bytes, query: Query) -> None:
        if entry.external_aliases and self.allowed:
            return  # the client decides whether the aliases are the whole answer
        kind = response_kind(message[2:12], message[12 + len(query.question) :])
        if kind is None or entry.variants[kind] is not None or (kind >= FIRST_COOKIE_KIND and self.cookies is None):
            return
        self.table.precompile(entry, kind)

    def _transfer(
        self, query: Query, options: EdnsOptions, client: Client, transport: int
    ) -> bytes | DeferredAnswer | None:
        index = self.table.zone_of(query.qname, Type.SOA)
        zone = index.zone.name if index else ""
        signature = query.signature
        key = signature.key_name if signature else ""
        found = self.table.transfers.answer(query, index.zone, client[0], key, transport) if index else Rcode.REFUSED
        self.table.count((zone, query.qtype, TRANSPORTS[transport], found if isinstance(found, Rcode) else 0))
        if not isinstance(found, Rcode | AnswerSections):
            return ZoneTransfer(signature.sign_all(found, lambda: self.wall) if signature else found, zone)
        body = without_records(found) if isinstance(found, Rcode) else write_body(found, query.qname)
        if over := self._over_limit(options, client, transport, b"%s %d" % (zone.encode(), body.flags & 0xF)):
            return self._limit(query, body, options, client, over)
        return self._writer.write(query, body, options, self.wall)

    def _relays(self, query: Query, client: Client) -> bool:
        return bool(query.flags & RD) and not query.tsig_at and self.allowed.has(client[0])

    def finish_relayed(self, relayed: RelayedQuery, body: ResponseBody) -> bytes:
        """Return the response to a relayed query, truncated if it is longer than the client accepts.

        ``body`` is a result of ``relayed_query.relayed_body``. Call this method once for each ``RelayedQuery`` that
        ``respond`` returned, then send the result to the client. Responses to clients without cookies are usually kept
        short, to protect the victims of forged queries. Clients in allowed networks are assumed not to be such victims,
        so their responses may be longer.
        """
        query, transport = relayed.query, relayed.transport
        self.table.count((relayed.zone, query.qtype, TRANSPORTS[transport], body.flags & 0xF))
        response = self._writer.write(query, body, relayed.options, self.wall)
        if len(response) <= self._writer.payload_limit(query, transport):
            return response
        self.truncated += 1
        return self._writer.write(query, truncated(body), relayed.options, self.wall)

    def _refuse(
        self, query: Query, body: ResponseBody, rcode: Rcode, options: EdnsOptions, client: Client, transport: int
    ) -> bytes | None:
        if over := self._over_limit(options, client, transport, b" %d" % rcode):
            return self._limit(query, body, options, client, over)
        self.table.count(("", query.qtype, TRANSPORTS[transport], rcode))
        return self._writer.write(query, body, options, self.wall, rcode)

    def _options(self, query: Query, client: Client, transport: int) -> EdnsOptions:
        if query.edns is None or query.error == Rcode.FORMERR:
            return NO_OPTIONS
        identity = self.table.farm.config.server.identity.encode()
        return answer_options(query.edns, client[0], transport == TCP, identity, self.cookies, self.wall)

    def _over_limit(self, options: EdnsOptions, client: Client, transport: int, kind: bytes) -> int:
        """Count a response of ``kind`` unless the client's address is verified; return the number of responses over the
        limit."""
        return 0 if transport == TCP or options.valid_cookie else self.limiter.count(client[0], kind)

    def _limit(self, query: Query, body: ResponseBody, options: EdnsOptions, client: Client, over: int) -> bytes | None:
        """Return a truncated response to a query over the rate limit, or None if the response is dropped."""
        if self.limiter.drops(over, client[0]):
            return None
        return self._writer.write(query, truncated(body), options, self.wall)

    def _limit_usual(self, message: bytes, client: Client, over: int) -> bytes | None:
        query = read_query(message)
        return self._limit(query, EMPTY_BODY, self._options(query, client, UDP), client, over) if query else None


def response_kind(before: bytes, after: bytes) -> int | None:
    """Return the response kind for a query, given the bytes before and after its question, or None for an unusual
    shape.

    ``before`` contains the flags and counts. ``after`` contains everything that follows the question.
    """
    kind = QUERY_SHAPES.get(before + after)
    if kind is None and len(after) in COOKIE_ENDS and after[COOKIE_AT - 1] == len(after) - COOKIE_AT:
        kind = COOKIE_QUERY_SHAPES.get(before + after[:COOKIE_AT])
    return subnet_kind(before, after) if kind is None else kind


def _for_client(entry: AnswerEntry, client: Client, options: bytes, has_subnet: bool) -> tuple[AnswerEntry, bytes]:
    """Return the entry for the order in which ``client`` uses the sites of a pool, and ``options`` with the scope."""
    if not has_subnet:
        return entry.for_client(client[0], b"")[0], options
    entry, scope = entry.for_client(client[0], options[_SUBNET_AT:])
    return entry, options[:_SCOPE_AT] + scope + options[_SCOPE_AT + 1 :]


def _kind(entry: AnswerEntry) -> bytes:
    """Return the rate limiter's key for an entry that is not cached.

    Within a zone, all such entries with the same RCODE share one key.
    """
    return b"%s %d" % (entry.zone.encode(), entry.rcode)
