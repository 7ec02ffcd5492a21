"""What answering leaves to whoever holds the sockets: it takes more than one message, or another server. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lbdns.answering.message import Record
from lbdns.answering.options import NONE, Options
from lbdns.answering.query import Query


@dataclass(frozen=True, slots=True)
class Transfer:
    """A zone over TCP: its messages in order, each made when it is taken, so that a reader sets the pace."""

    messages: Iterator[bytes]
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Relay:
    """A query for an upstream: recursion desired, from a network that may have it, about a name outside our zones or
    one of ours whose ``aliases`` lead out of them."""

    query: Query
    host: str  # the client's address
    transport: int
    options: Options = NONE  # those of the query, for the response
    zone: str = ""  # the one of ours that has the aliases
    aliases: tuple[Record, ...] = ()


Errand = Transfer | Relay
