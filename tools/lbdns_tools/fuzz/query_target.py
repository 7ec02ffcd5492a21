"""Fuzz target ``query``: the handling of a query by the responder, over UDP and TCP.

An input consists of one byte and a query. The byte selects the client, the transport and the rate limit. Every feature
of the responder is enabled: both types of pool, cookies, rate limiting, forwarding and zone transfers. The responder
must return a response, a deferred answer or None, and must return the same result if the query is repeated. A response
must be well-formed, match the query, and not exceed the client's size limit.
"""

from __future__ import annotations

import ipaddress
import random
import struct
from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final
from unittest import mock

import dns.edns
import dns.message
import dns.name
import dns.rrset
import dns.tsig

from lbdns.answering.answer_table import AnswerTable
from lbdns.answering.dns_constants import TCP, UDP
from lbdns.answering.message_writer import ResponseBody
from lbdns.answering.relayed_query import RelayedQuery
from lbdns.answering.responder import Client, DeferredAnswer, Responder
from lbdns.answering.zone_transfer import ZoneTransfer
from lbdns.config import (
    CollectorConfig,
    Config,
    ForwardConfig,
    KeyConfig,
    PoolConfig,
    RateLimitConfig,
    ServerConfig,
    TransferPermit,
    ZoneConfig,
)
from lbdns.model.farm import Farm, build_farm
from lbdns.policies.plan import Plan
from lbdns.zones.master_file import parse_zone
from lbdns_shared.endpoint import Endpoint
from lbdns_tools.fuzz.fuzz_targets import Mutator
from lbdns_tools.fuzz.response_checks import check_response

SECONDS: Final = 0.5
MAX_LENGTH: Final = 4096
PAYLOAD: Final = 1232  # bytes over UDP, the default
NOW, WALL = 1000.0, 1_800_000_000.0
SECRET: Final = bytes(range(16))  # of cookies
KEY: Final = KeyConfig("secondary", "hmac-sha256", bytes(range(32)))

#: The first byte of an input: its lowest bit selects the transport, the next two the client, the next the rate limit
OVER_TCP: Final = 1
CLIENTS: Final[tuple[Client, ...]] = (
    ("192.0.2.1", 5353), ("2001:db8::1", 5353, 0, 0), ("fe80::1%eth0", 53, 0, 2), ("10.1.2.3", 53),
)  # fmt: skip
LIMITED: Final = 8

ZONE: Final = "".join([
    "$TTL 1h\n@ SOA ns hostmaster 7 1h 15m 1w 5m\n@ NS ns\n@ MX 10 mail\nns A 127.0.0.1\nmail A 127.0.0.2\n",
    "bilbo A 127.0.0.16\nfrodo A 127.0.0.17\nfrodo AAAA ::17\ngandalf A 127.0.0.18\ngandalf AAAA ::18\n",
    "www CNAME best\nloop1 CNAME loop2\nloop2 CNAME loop1\nout CNAME www.example.\n*.wild A 127.0.0.77\n",
    "*.alias CNAME bilbo\na.b.c A 127.0.0.79\nsub NS ns.sub\nsub DS 1 8 2 ", "00" * 32, "\nns.sub A 127.0.0.80\n",
    "into CNAME host.sub\nold DNAME new\na.new A 127.0.0.81\nround DNAME round.round\nodd TYPE65280 \\# 2 abcd\n",
    "srv SRV 0 0 80 bilbo\nodd TYPE97 \\# 1 61\nodd HTTPS 1 . alpn=h2\n",
    *(f'big TXT "{letter * 90}"\n' for letter in "abcdef"),
    *(f"huge TYPE65281 \\# 40000 {octet * 40_000}\n" for octet in ("11", "22")),
])  # fmt: skip
NAMES: Final = (
    "hobbit", "best.hobbit", "bEsT.HoBbIt", "round.robin.hobbit", "robin.hobbit", "addr.hobbit", "www.hobbit",
    "bilbo.hobbit", "nowhere.hobbit", "x.wild.hobbit", "loop1.hobbit", "out.hobbit", "x.alias.hobbit", "b.c.hobbit",
    "host.sub.hobbit", "sub.hobbit", "into.hobbit", "x.old.hobbit", "x.round.hobbit", "odd.hobbit", "big.hobbit",
    "huge.hobbit", "www.example", ".", "id.server", "version.bind", "16.0.0.127.in-addr.arpa",
)  # fmt: skip
TYPES: Final = (
    1, 2, 5, 6, 12, 15, 16, 28, 33, 39, 41, 43, 46, 64, 65, 97, 0, 128, 249, 250, 251, 252, 255, 65280, 65535,
)  # fmt: skip
CLASSES: Final = (1, 1, 1, 3, 4, 254, 255, 0)
OPTIONS: Final = (
    (3, b""), (8, b"\0\1\x18\0\xc0\0\2"), (8, b"\0\2\x38\0" + bytes(7)), (8, b"\0\0\0\0"),
    (8, b"\0\1\x21\0" + bytes(5)),
    (10, bytes(8)), (10, bytes(24)), (10, bytes(7)), (10, bytes(41)), (10, bytes(8) + b"\1\0\0\0" + bytes(12)),
    (11, b""), (11, b"\0\x64"), (12, bytes(40)), (65001, b"x" * 9), (15, b"\0\1"),
    (8, b"\0\1\x20\0\xc0\0\2\1"), (8, b"\0\1\x17\0\xc0\0\3"), (8, b"\0\2\x80\0" + bytes(15) + b"\1"),
    (8, b"\0\1\x18\x18\xc0\0\2"), (8, b"\0\3\0\0"), (8, b"\0\1\0\0"),
)  # fmt: skip
WORDS: Final = (
    b"\xc0\x0c", b"\x3f", b"\x40", b"\xff\xff", b"\0\0\x29\x04\xd0\0\0\0\0\0\0", b"\0\xfa\0\xff", b"\4best\6hobbit\0",
    b"\1*", b"\7version\4bind\0", b"\0\x0a\0\x08", b"\0\x0a\0\x18", b"\0\x08\0\x07\0\1\x18\0",
    b"\0\0\1\0\1", b"\0\xfc\0\1",
)  # fmt: skip


@cache
def _farm(limited: bool) -> Farm:
    transfers = (TransferPermit(ipaddress.ip_network("0.0.0.0/0")), TransferPermit(None, KEY.name))
    pools = (
        PoolConfig("web", "hobbit", ("bilbo", "frodo", "gandalf"), {"best": "best", "round.robin": "round_robin"}, 0),
        PoolConfig("addr", "hobbit", ("frodo", "gandalf"), {"addr": "round_robin"}, 5, "address"),
    )
    config = Config(
        path=Path("lbdns.toml"), server=ServerConfig(identity="ns1", version="lbdns"),
        zones=(ZoneConfig("hobbit", Path("hobbit.zone"), transfers),), pools=pools, collector=CollectorConfig(),
        rate_limit=RateLimitConfig(responses_per_second=1 if limited else 1000),
        forward=ForwardConfig((Endpoint("192.0.2.53", 53),), (ipaddress.ip_network("10.0.0.0/8"),)), keys=(KEY,),
    )  # fmt: skip
    return build_farm(config, [parse_zone("hobbit", ZONE, Path("hobbit.zone"))])


@cache
def _responder(limited: bool) -> Responder:
    return Responder(AnswerTable(_farm(limited)), (SECRET,))


def _fresh_responder(limited: bool) -> Responder:
    """Reset the shared responder, so that earlier queries have no effect, and return it."""
    responder = _responder(limited)
    responder.table = AnswerTable(_farm(limited))
    for cursor in responder.table.cursors.values():
        cursor.set_plan(Plan((1,)))  # always the same member, so that responses can be compared
    # Far in the future, rate limit windows have ended and earlier queries have expired
    responder.tick(responder.now + NOW, WALL)
    return responder


def check(data: bytes) -> None:
    how, query = data[0] if data else 0, data[1:]
    client = CLIENTS[how >> 1 & 3]
    transport = TCP if how & OVER_TCP else UDP
    limited = bool(how & LIMITED)
    responder = _fresh_responder(limited)
    first = responder.respond(query, client, transport)
    _check(responder, query, client, transport, first)
    if first is None:
        assert len(query) < 12 or query[2] & 0x80, "the responder did not answer a query"
    # The second time, the fast path may answer
    again = responder.respond(query, client, transport)
    if limited and transport == UDP:
        if isinstance(again, bytes):
            _check(responder, query, client, transport, again)
    elif isinstance(first, bytes):
        assert again == first, "the second response to the query differs from the first"
    else:
        assert type(again) is type(first)


def _check(
    responder: Responder, query: bytes, client: Client, transport: int, answer: bytes | DeferredAnswer | None
) -> None:
    match answer:
        case bytes():
            check_response(query, answer, transport == TCP, PAYLOAD)
        case RelayedQuery():
            assert query[2] & 1, "the responder forwarded a query without the RD bit"
            assert client[0].startswith("10."), "an open resolver"
            for body in (
                ResponseBody(2, (0, 0, 0), b""),
                ResponseBody(0, (1, 0, 0), b"\xc0\x0c\0\x10\0\1\0\0\0\0\x10\0" + bytes(4096)),
            ):
                check_response(query, responder.finish_relayed(answer, body), transport == TCP, PAYLOAD)
        case ZoneTransfer():
            assert transport == TCP
            messages = list(answer.messages)
            assert messages
            for message in messages:
                check_response(query, message, True, PAYLOAD)


def seeds() -> Mapping[str, bytes]:
    found = {f"name-{at}": bytes((at % 16,)) + _query(name, "A", at % 2 == 0) for at, name in enumerate(NAMES)}
    found |= {f"type-{rtype}": b"\0" + _query("hobbit", f"TYPE{rtype}") for rtype in TYPES}
    for at, (code, value) in enumerate(OPTIONS):
        options: list[dns.edns.Option] = [dns.edns.GenericOption(dns.edns.OptionType.make(code), value)]
        query = dns.message.make_query("best.hobbit", "A", id=7, use_edns=0, options=options, want_dnssec=bool(at % 2))
        found[f"option-{at}"] = bytes((at % 2,)) + query.to_wire()
    for name in ("id.server", "version.bind"):
        found[name] = b"\0" + dns.message.make_query(name, "TXT", "CH", id=7).to_wire()
    for name, rtype in product(("hobbit", "www.example"), ("AXFR", "IXFR", "SOA", "A")):
        found[f"from-10-{name}-{rtype}"] = b"\x07" + _query(name, rtype)
        found[f"signed-{name}-{rtype}"] = b"\1" + _query(name, rtype, signed=True)
    cookie = dns.message.from_wire(found["option-5"][1:])
    cookie.question.clear()
    found["cookie-alone"] = b"\0" + cookie.to_wire()
    found["notify"] = b"\0\0\7\x24\0\0\1\0\0\0\0\0\0\6hobbit\0\0\6\0\1"
    return found


def _query(name: str, rtype: str, edns: bool = False, signed: bool = False) -> bytes:
    query = dns.message.make_query(name, rtype, id=7)
    if edns:
        query.use_edns(0, payload=PAYLOAD)
    if rtype == "IXFR":
        query.authority.append(dns.rrset.from_text(query.question[0].name, 0, "IN", "SOA", "ns. h. 6 1 1 1 1"))
    if signed:
        query.use_tsig(dns.tsig.Key(KEY.name, KEY.secret, KEY.algorithm))
    with mock.patch("time.time", return_value=WALL):  # the time in the signature
        return query.to_wire()


def mutate(data: bytes, max_size: int, chance: random.Random, bytewise: Mutator) -> bytes:
    end = data.find(0, 13) + 5
    if len(data) < 18 or end < 18 or chance.random() < 0.3:
        return bytewise(data, max_size)
    how, head, question, rest = data[:1], data[1:13], data[13:end], data[end:]
    match chance.randrange(10):
        case 0:
            how = bytes((chance.randrange(16),))
        case 1:
            numbers = list(struct.unpack("!6H", head))
            numbers[chance.randrange(1, 6)] = chance.choice((0, 1, 2, 8, 9, 0x0100, 0x2000, 0x8000, 0x0110, 65535))
            head = struct.pack("!6H", *numbers)
        case 2:
            wire = dns.name.from_text(chance.choice(NAMES)).to_wire() or b"\0"
            question = wire + question[-4:]
        case 3:
            question = question[:-4] + struct.pack("!HH", chance.choice(TYPES), chance.choice(CLASSES))
        case 4:
            label = bytes(chance.choices(b"ab*\0\xff.", k=chance.choice((1, 2, 63))))
            question = bytes((len(label),)) + label + question
        case 5:
            question = bytes(
                octet ^ (0x20 if chance.random() < 0.5 and chr(octet).isalpha() else 0) for octet in question
            )
        case 6 | 7:
            head, rest = head[:10] + b"\0\1", _opt(chance)
        case 8:
            record = b"\0" + struct.pack("!HHIH", chance.choice(TYPES), chance.choice(CLASSES), 0, 3) + b"abc"
            head, rest = head[:10] + bytes((0, min(255, head[11] + 1))), chance.choice((rest + record, record + rest))
        case _:
            rest = bytewise(rest, max_size)
    return b"".join((how, head, question, rest))[:max_size]


def _opt(chance: random.Random) -> bytes:
    options = b"".join(
        struct.pack("!HH", code, len(value)) + value for code, value in chance.choices(OPTIONS, k=chance.randrange(4))
    )
    payload, version = chance.choice((0, 511, 512, 1231, 1232, 4096, 65535)), chance.choice((0, 0, 0, 1))
    flags = chance.choice((0, 0x8000, 0x4000))
    return b"\0" + struct.pack("!HHBBHH", 41, payload, 0, version, flags, len(options)) + options
