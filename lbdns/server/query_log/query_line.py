"""Formats a query and its response as one line of the query log, in JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any, Final, NamedTuple

from lbdns.answering.dns_constants import CLASS_CH, CLASS_IN, HEADER_LENGTH, TRANSPORTS, TYPE_NAMES, Rcode, Type
from lbdns.answering.query_reader import Query, read_query, skip_name
from lbdns.answering.responder import Client
from lbdns.model.farm import Farm
from lbdns.zones import names

_CLASSES: Final = {CLASS_IN: "IN", CLASS_CH: "CH"}
_RCODES: Final = {int(rcode): rcode.name for rcode in Rcode}
_FIXED: Final = 10  # bytes of a record between its name and its data
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class LoggedQuery(NamedTuple):
    """A sampled query, in a form that is cheap to store until the log thread formats the query."""

    time: float  # Unix seconds
    client: Client
    transport: int  # UDP or TCP
    query: bytes
    response: bytes | None  # None: the query got no response ...
    transferred: bool  # ... or a zone transfer of many messages
    seconds: float | None  # time taken to answer; None for a deferred answer


@dataclass(frozen=True, slots=True)
class _Pool:
    name: str
    by_owner: Mapping[bytes, str]  # members' names relative to the zone, by their names in wire form
    by_address: Mapping[bytes, str]


class MemberNames:
    """Finds the member that a response names in its CNAME record or its address records."""

    def __init__(self, farm: Farm | None = None) -> None:
        self._pools: dict[bytes, _Pool] = {}
        for pool in farm.pools if farm else ():
            by_owner = {member.owner: member.name for member in pool.selectable}
            by_address: dict[bytes, str] = {}
            for member in pool.selectable:
                for address in member.addresses:
                    by_address.setdefault(inet_pton(AF_INET6 if ":" in address else AF_INET, address), member.name)
            found = _Pool(pool.name, by_owner, by_address)
            self._pools.update(dict.fromkeys(pool.owners, found))

    def find(self, response: bytes) -> tuple[str, str] | None:
        """Return the names of the pool and of the member (relative to the zone), or None if no member is named."""
        for owner, rtype, begin, end in _records(response):
            pool = self._pools.get(owner)
            if pool is None:
                continue
            if rtype == Type.CNAME:
                member = pool.by_owner.get(_name_at(response, begin))
            else:
                member = pool.by_address.get(response[begin:end])
            if member is not None:
                return pool.name, member
        return None


def line_of(sample: LoggedQuery, members: MemberNames, pid: int) -> str | None:
    """Return the log line, including the newline, or None if the message is not a query."""
    query = read_query(sample.query)
    if query is None:
        return None
    response = sample.response
    pool, member = (members.find(response) if response else None) or (None, None)
    line: dict[str, Any] = {
        "time": round(sample.time, 6),
        "client": sample.client[0],
        "port": sample.client[1],
        "transport": TRANSPORTS[sample.transport],
        **_question(query),
        "rcode": _rcode(sample, query),
        "bytes": None if sample.transferred else len(response or b""),
        "pool": pool,
        "member": member,
        "pid": pid,
        "us": None if sample.seconds is None else round(sample.seconds * 1e6, 1),
    }
    return _encode(line) + "\n"


def _question(query: Query) -> dict[str, str | None]:
    if not query.question:
        return {"name": None, "type": None, "class": None}
    return {
        "name": names.to_text(query.qname),
        "type": TYPE_NAMES.get(query.qtype) or f"TYPE{query.qtype}",  # RFC 3597 section 5
        "class": _CLASSES.get(query.qclass) or f"CLASS{query.qclass}",
    }


def _rcode(sample: LoggedQuery, query: Query) -> str | None:
    if sample.transferred:
        return Rcode.NOERROR.name
    if sample.response is None:
        return None
    rcode = sample.response[3] & 0xF
    if query.edns is not None:
        # The upper bits are in the OPT record (RFC 6891 section 6.1.3)
        response = sample.response
        rcode |= next((response[begin - 6] for _, rtype, begin, _ in _records(response) if rtype == Type.OPT), 0) << 4
    return _RCODES.get(rcode) or f"RCODE{rcode}"


def _records(response: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield each record's owner name and type, and the offsets at which its RDATA begins and ends.

    The iteration stops at the first malformed record, because a response from an upstream may be malformed.
    """
    questions, *counts = (int.from_bytes(response[at : at + 2], "big") for at in (4, 6, 8, 10))
    at = HEADER_LENGTH
    for _ in range(questions):
        at = skip_name(response, at) + 4
        if at <= 4:
            return
    for _ in range(sum(counts)):
        name_end = skip_name(response, at)
        begin = name_end + _FIXED
        if not name_end or begin > len(response):
            return
        end = begin + int.from_bytes(response[begin - 2 : begin], "big")
        yield _name_at(response, at), int.from_bytes(response[name_end : name_end + 2], "big"), begin, end
        at = end


def _name_at(message: bytes, at: int) -> bytes:
    """Return the name at offset ``at`` in lower-case wire form, or an empty string if the name is malformed."""
    import dns.exception  # imported here: only the query log needs it
    import dns.name

    try:
        return dns.name.from_wire(message, at)[0].to_digestable()
    except dns.exception.DNSException:
        return b""
