"""Deferred answers: those that take many messages or an upstream, left to the caller of ``Responder.respond``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lbdns.answering.edns import NO_OPTIONS, EdnsOptions
from lbdns.answering.message_writer import Record
from lbdns.answering.query_reader import Query


@dataclass(frozen=True, slots=True)
class ZoneTransfer:
    """A zone to send over TCP, in messages that are made one by one as the caller takes them."""

    messages: Iterator[bytes]
    zone: str = ""


@dataclass(frozen=True, slots=True)
class RelayedQuery:
    """A query for an upstream, from a client in an allowed network that sets RD.

    Its name is outside our zones, or is one of ours whose ``aliases`` lead out of them.
    """

    query: Query
    host: str  # the client's address
    transport: int
    options: EdnsOptions = NO_OPTIONS  # of the response
    zone: str = ""  # our zone with the aliases
    aliases: tuple[Record, ...] = ()


DeferredAnswer = ZoneTransfer | RelayedQuery
